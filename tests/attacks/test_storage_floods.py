"""Nobody fills the database: what a person's runs and conversations hold is limited, by every door."""

import json
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.tools import ToolResult
from runs.models import EventPayload, Message, ModelCall, Run, RunEvent, Session, ToolCallRecord, room
from tests.fakes import calls, says

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
    assert room.count_stored(alice.pk) <= 200_000 + 2 * len(LARGE)
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
    statuses = []
    for _ in range(12):
        store(scene)
        with worker.capture(execute=True):
            statuses.append(send(alice_api, message="Hi").status_code)
        worker.work()
        stub.turns.clear()
        functions.answers.clear()
    assert statuses[0] == 202 and statuses[-1] == 409, statuses
    answer = send(alice_api, message="Hi")
    assert answer.json()["error"]["code"] == "quota_exceeded", answer.content
    assert room.count_stored(alice.pk) > 200_000
    # What was counted is about what is there.
    assert real_bytes(alice) + made_bytes(alice) <= 1.5 * room.count_stored(alice.pk)


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


def test_others_have_their_own_quota_and_a_deleted_conversation_makes_room(
    alice, alice_api, charlie_api, make_agent, monkeypatch
):
    agent = make_agent("helper")
    type(agent).objects.filter(pk=agent.pk).update(owner=None)  # the site's
    while send_message(alice_api).status_code < 300:
        pass
    assert send_message(charlie_api).status_code < 300
    Run.objects.filter(principal=alice).update(size=None, stored=0)
    Session.objects.filter(owner=alice).delete()
    monkeypatch.setattr(room, "ASKED_AGAIN_S", 0.0)
    assert send_message(alice_api).status_code < 300
