"""Nobody fills the database: what a person's runs and conversations hold is limited, by every door."""

import json
import re
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.http import room
from agents.tools import ToolResult
from functions.models import Execution
from runs.models import EventPayload, Message, ModelCall, Run, RunEvent, Session, ToolCallRecord
from runs.queue import endings
from runs.worker import pruning
from tests.fakes import calls, says
from tests.functions import library
from tests.gateway.embed.test_visitors import Visitor, leave

pytestmark = pytest.mark.django_db
LARGE = "x" * 30_000
JSON = {"content_type": "application/json"}


@pytest.fixture(autouse=True)
def small_quota(settings, monkeypatch):
    settings.RUN_BYTES_PER_PERSON = 200_000
    monkeypatch.setattr(room, "ROOMS", room.Rooms())


def send(api, **body):
    return api.post("/api/v1/agents/helper/messages", body, headers={"Prefer": "respond-async"})


def send_message(api):
    return send(api, message=LARGE)


def send_input(api):
    return send(api, message="Hello", input={"text": LARGE})


def send_metadata(api):
    return send(api, message="Hello", metadata={"text": LARGE})


def send_history(api):
    history = [{"role": "user", "content": LARGE}, {"role": "assistant", "content": "Yes."}]
    body = {"model": "helper", "messages": [*history, {"role": "user", "content": "Go on."}], "stream": True}
    return api.post("/v1/chat/completions", body)


def send_run_of_a_thread(api):
    thread = api.post("/langgraph/threads", {}).json()["thread_id"]
    body = {"assistant_id": "helper", "input": {"messages": [{"role": "user", "content": LARGE}]}}
    return api.post(f"/langgraph/threads/{thread}/runs", body)


def send_state(api):
    thread = api.post("/langgraph/threads", {}).json()["thread_id"]
    body = {"values": {"messages": [{"role": "user", "content": LARGE}]}}
    return api.post(f"/langgraph/threads/{thread}/state", body)


def send_copy(api):
    session = Session.objects.order_by("pk").first()
    if session is None:
        return send_message(api)
    return api.post(f"/langgraph/threads/{session.pk}/copy", {})


def send_task(api):
    message = {"messageId": str(Run.objects.count()), "role": "ROLE_USER", "parts": [{"text": LARGE}]}
    headers = {"A2A-Version": "1.0"}
    body = {"message": message, "configuration": {"returnImmediately": True}}
    return api.post("/a2a/helper/message:send", body, headers=headers)


DOORS = [
    send_message, send_input, send_metadata, send_history, send_run_of_a_thread, send_state, send_copy, send_task,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_a_person_stores_no_more_than_their_quota(alice, alice_api, make_agent, door):
    make_agent("helper")
    answers = [door(alice_api) for _ in range(20)]
    refused = [one for one in answers if one.status_code == 409]
    assert refused and b"quota_exceeded" in refused[-1].content.lower(), [one.status_code for one in answers]
    assert answers[0].status_code < 300
    assert room.count_stored(room.Holder(alice.pk)) <= 200_000 + 2 * len(LARGE)
    assert real_bytes(alice) <= 250_000


def real_bytes(person):
    texts = [json.dumps(one) for one in Message.objects.filter(session__owner=person).values_list("content", flat=True)]
    texts += [json.dumps(one) for one in Run.objects.filter(principal=person).values_list("input", "metadata")]
    return sum(map(len, texts))


def stores_reply(scene):
    scene.stub.script(says(LARGE))


def stores_arguments(scene):
    scene.stub.script(calls(("add", {"a": LARGE})), says("Done."))


def stores_result(scene):
    scene.stub.script(calls(("add", {"a": 1})), says("Done."))
    scene.functions.answers.append(ToolResult(ok=True, value={"text": LARGE}))


def stores_printed(scene):
    scene.stub.script(calls(("add", {"a": 1})), says("Done."))
    scene.functions.answers.append(ToolResult(ok=True, value=1, printed=LARGE))


def stores_error(scene):
    scene.stub.script(calls(("add", {"a": 1})), says("Done."))
    scene.functions.answers.append(ToolResult.failed("broken", LARGE))


def stores_requests(scene):
    """The instructions of the agent, with each message."""
    scene.settings.KEEP_RAW = True
    scene.agent.system_prompt = LARGE
    scene.agent.save()
    scene.agent.publish(author=scene.agent.owner)
    scene.stub.script(says("Done."))


MADE = [stores_reply, stores_arguments, stores_result, stores_printed, stores_error, stores_requests]


@pytest.mark.parametrize("store", MADE)
def test_what_runs_make_counts_too(
    alice, alice_api, make_agent, make_tool, stub, stub_provider, functions, worker, settings, monkeypatch, store
):
    monkeypatch.setattr(room, "LOOKED_EVERY_S", 0.0)
    monkeypatch.setattr(room, "LOOKS_COST", 0.0)
    agent = make_agent("helper", provider=stub_provider, tools=[make_tool("add", input_schema={"type": "object"})])
    scene = SimpleNamespace(stub=stub, functions=functions, settings=settings, agent=agent)
    statuses = [send_and_work(alice_api, scene, store, worker) for _ in range(12)]
    assert statuses[0] == 202 and statuses[-1] == 409, statuses
    answer = send(alice_api, message="Hi")
    assert answer.json()["error"]["code"] == "quota_exceeded", answer.content
    assert room.count_stored(room.Holder(alice.pk)) > 200_000
    # What was counted is about what is there.
    assert real_bytes(alice) + made_bytes(alice) <= 1.5 * room.count_stored(room.Holder(alice.pk))


def send_and_work(api, scene, store, worker):
    """One message and its run, which stores much; the status of the answer."""
    store(scene)
    with worker.capture(execute=True):
        status = send(api, message="Hi").status_code
    worker.work()
    scene.stub.turns.clear()
    scene.functions.answers.clear()
    return status


def made_bytes(person):
    rows = [
        *RunEvent.objects.filter(run__principal=person).values_list("data"),
        *EventPayload.objects.filter(event__run__principal=person).values_list("data"),
        *ModelCall.objects.filter(run__principal=person).values_list("request", "response", "error"),
        *ToolCallRecord.objects.filter(run__principal=person).values_list("arguments", "result", "error", "printed"),
    ]
    return sum(len(json.dumps(row, default=str)) for row in rows)


def test_a_process_that_knows_nothing_of_a_person_looks_at_few_rows(alice, alice_api, make_agent):
    """Nothing on the path of a message reads all runs of a person."""
    make_agent("helper")
    send(alice_api, message="Hi")
    with CaptureQueriesContext(connection) as captured:
        send(alice_api, message="Hi")
    assert not [one["sql"] for one in captured if 'SUM("runs_' in one["sql"]]


@pytest.fixture
def asked_at_once(monkeypatch):
    """What was deleted is noticed with the next request."""
    for name in ("ASKED_AGAIN_S", "LOOKED_EVERY_S", "LOOKS_COST"):
        monkeypatch.setattr(room, name, 0.0)


@pytest.fixture
def scene(alice, make_agent, make_tool, stub, stub_provider, functions, settings, asked_at_once):
    agent = make_agent("helper", provider=stub_provider, tools=[make_tool("add", input_schema={"type": "object"})])
    return SimpleNamespace(stub=stub, functions=functions, settings=settings, agent=agent)


def fill(api, scene, worker, store=stores_result):
    """Until a message is refused."""
    while send_and_work(api, scene, store, worker) < 300:
        pass


def test_others_have_their_own_quota(alice_api, charlie_api, make_agent, asked_at_once):
    agent = make_agent("helper")
    type(agent).objects.filter(pk=agent.pk).update(owner=None)  # the site's
    while send_message(alice_api).status_code < 300:
        pass
    assert send_message(charlie_api).status_code < 300


def test_deleted_conversations_give_back_what_their_runs_hold(
    alice, alice_api, scene, worker, django_capture_on_commit_callbacks
):
    fill(alice_api, scene, worker)
    with django_capture_on_commit_callbacks(execute=True):
        for session in Session.objects.filter(owner=alice):
            assert alice_api.delete(f"/api/v1/sessions/{session.pk}").status_code == 204
    assert room.count_stored(room.Holder(alice.pk)) == 0
    assert made_bytes(alice) < 10_000 and not RunEvent.objects.exists()
    assert Run.objects.filter(principal=alice, status="succeeded").exists()  # that they ran is kept
    assert send_message(alice_api).status_code < 300


def test_an_emptied_run_gives_back_what_it_holds_and_cannot_be_retried(alice, alice_api, bob_api, scene, worker):
    fill(alice_api, scene, worker)
    before = room.count_stored(room.Holder(alice.pk))
    run = Run.objects.filter(principal=alice).first()
    path = f"/api/v1/runs/{run.pk}"
    assert bob_api.post(f"{path}/empty").status_code == 404
    answer = alice_api.post(f"{path}/empty")
    assert answer.status_code == 200 and answer.json()["status"] == "succeeded", answer.content
    assert room.count_stored(room.Holder(alice.pk)) < before - len(LARGE)
    assert alice_api.get(f"{path}/events").json()["results"] == []
    assert alice_api.get(f"{path}/tool-calls/").json()["results"][0]["result"] is None
    answer = alice_api.post(f"{path}/retry", {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "run_emptied")
    assert alice_api.post(f"{path}/empty").status_code == 200  # again


def test_a_run_that_works_is_not_emptied(alice, alice_api, make_agent):
    make_agent("helper")
    run = send_message(alice_api).json()["run"]["id"]
    assert alice_api.post(f"/api/v1/runs/{run}/empty").status_code == 409


def test_pruning_gives_back_what_it_deletes(alice, alice_api, scene, worker, settings):
    for _ in range(3):
        send_and_work(alice_api, scene, stores_requests, worker)
    full = room.count_stored(room.Holder(alice.pk))
    settings.KEEP_DAYS = {**settings.KEEP_DAYS, "raw": 0}
    pruning.prune()
    without_requests = room.count_stored(room.Holder(alice.pk))
    assert full - without_requests > 3 * 0.8 * len(LARGE)
    settings.KEEP_DAYS = {**settings.KEEP_DAYS, "events": 0}
    pruning.prune()
    assert room.count_stored(room.Holder(alice.pk)) < without_requests
    assert not RunEvent.objects.exists()


def test_what_a_deleted_conversation_left_is_emptied_at_night(alice, alice_api, scene, worker):
    send_and_work(alice_api, scene, stores_result, worker)
    Session.objects.filter(owner=alice).delete()  # as by an administrator
    assert room.count_stored(room.Holder(alice.pk)) > len(LARGE)
    pruning.prune()
    assert room.count_stored(room.Holder(alice.pk)) == 0


def test_direct_calls_of_functions_count_until_they_are_deleted(alice, alice_api, bob_api, asked_at_once):
    library.publish(alice, "def write(size: int) -> str:\n    return 'x' * size\n", "write")
    path = "/api/v1/functions/write"
    answers = [alice_api.post(f"{path}/execute", {"arguments": {"size": len(LARGE)}}) for _ in range(9)]
    assert answers[0].status_code == 200
    assert answers[-1].json()["error"]["code"] == "quota_exceeded", answers[-1].content
    assert bob_api.delete(f"{path}/executions/").status_code == 404
    assert alice_api.delete(f"{path}/executions/").status_code == 204
    assert not Execution.objects.exists()
    assert alice_api.post(f"{path}/execute", {"arguments": {"size": 1}}).status_code == 200


def test_visitors_fill_only_their_part_and_make_room_again(
    alice, alice_api, scene, worker, django_capture_on_commit_callbacks
):
    """They have no account: what they write counts for the owner of the embed, but never keeps her from working."""
    body = {"agent": "helper", "enabled": True, "per_minute": 6000, "per_visitor": 600}
    base = f"/embed/v1/{alice_api.post('/api/v1/embeds/', body).json()['key']}"

    def visit():
        answer = Visitor(base, worker).call("post", "messages", {"message": "x" * 2000})
        leave(answer)
        return answer.status_code

    answers = [visit() for _ in range(30)]
    assert answers[0] == 200 and answers[-1] == 409, answers
    visitors = room.Holder(alice.pk, is_visitors=True)
    assert 40_000 < room.count_stored(visitors) < 60_000
    assert room.count_stored(room.Holder(alice.pk)) < 1000
    assert send_message(alice_api).status_code < 300
    for run in Run.objects.filter(principal=alice):
        endings.cancel_run(run, by=alice)
    with django_capture_on_commit_callbacks(execute=True):
        pruning.prune()
    assert room.count_stored(visitors) < 40_000
    assert visit() == 200


def test_the_page_of_files_shows_how_much_runs_hold(alice, alice_api, make_agent, signed_in):
    make_agent("helper")
    send_message(alice_api)
    page = signed_in(alice).get("/files/").content.decode()
    assert re.search(r"hold 29\.3\sKB of 195\.3\sKB", page), page
