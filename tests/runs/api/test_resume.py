"""What a waiting run waits for is in its row, and several answers are sent at once: each once, all or none."""

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import ApiKey, AuditEvent
from runs.models import Approval, InputRequest, Run
from runs.queue import endings
from tests.fakes import calls, says
from tests.people import ApiClient
from tests.runs.calls.test_inputs import ASYNC, WEATHER

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    made = make_agent(tools=[make_tool()], provider=stub_provider)
    made.grants.update(mode="ask")
    return made


@pytest.fixture
def wait(worker, alice_api, agent, stub):
    """A run that waits for these calls."""

    def wait(*asked):
        stub.script(calls(*asked), says("done"))
        body = {"message": "Hello", "tools": [WEATHER]}
        with worker.capture(execute=True):
            said = alice_api.post("/api/v1/agents/helper/messages", body, headers=ASYNC)
        worker.work()
        return Run.objects.get(pk=said.json()["run"]["id"])

    return wait


@pytest.fixture
def resume(worker):
    def resume(api, run, inputs, status=202):
        with worker.capture(execute=True):
            said = api.post(f"/api/v1/runs/{run.pk}/resume", {"inputs": inputs})
        assert said.status_code == status, said.json()
        worker.work()
        return said.json() if status == 202 else said.json()["error"]

    return resume


OSLO = ("weather", {"city": "Oslo"})
SUM = ("add", {"a": 1, "b": 2})


def pending(api, run):
    return {one["kind"]: one for one in api.get(f"/api/v1/runs/{run.pk}").json()["pending"]}


@pytest.mark.django_db(transaction=True)  # both calls go on at once, in two threads
def test_a_run_lists_what_it_waits_for_and_continues_with_all_the_answers(wait, resume, alice_api, functions, stub):
    run = wait(OSLO, SUM)
    asked = pending(alice_api, run)
    tool, approval = asked["tool"], asked["approval"]
    assert (tool["name"], tool["arguments"], tool["run"]) == ("weather", {"city": "Oslo"}, str(run.pk))
    assert (approval["name"], approval["arguments"]) == ("add", {"a": 1, "b": 2})
    assert approval["text"] and approval["expires_at"] and approval["schema"]["required"] == ["decision"]
    assert {row["id"]: len(row["pending"]) for row in alice_api.get("/api/v1/runs/").json()["results"]} == {
        str(run.pk): 2
    }

    edited = {"decision": "approve", "arguments": {"a": 5, "b": 6}}
    said = resume(alice_api, run, {tool["id"]: {"result": {"sky": "rain"}}, approval["id"]: {"answer": edited}})

    assert (said["id"], said["status"], said["pending"]) == (str(run.pk), "queued", [])
    run.refresh_from_db()
    assert run.status == "succeeded" and functions.asked[0][1] == {"a": 5, "b": 6}
    assert '"sky"' in str(stub.requests[1]["messages"])
    assert pending(alice_api, run) == {}
    actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert [one for one in actions if "." in one][-2:] == ["approval.approve", "run.resumed"]


def test_after_some_of_the_answers_the_others_are_still_listed(wait, resume, alice_api):
    run = wait(OSLO, SUM)
    said = resume(alice_api, run, {pending(alice_api, run)["tool"]["id"]: {"error": "no window"}})
    assert [one["kind"] for one in said["pending"]] == ["approval"] == list(pending(alice_api, run))
    assert run.tool_calls.get(name="weather").error == {"code": "tool_failed", "message": "no window"}
    resume(alice_api, run, {said["pending"][0]["id"]: {"answer": "deny"}})
    run.refresh_from_db()
    assert run.status == "succeeded" and Approval.objects.get().status == "denied"


def test_a_question_has_its_text_and_its_schema(wait, resume, alice_api, worker):
    run = wait(OSLO)
    schema = {"type": "object", "required": ["city"]}
    InputRequest.objects.update(kind="form", prompt="Which city?", schema=schema)
    asked = pending(alice_api, run)["question"]
    assert (asked["text"], asked["schema"], asked["arguments"]) == ("Which city?", schema, None)
    assert resume(alice_api, run, {asked["id"]: {"answer": "Oslo"}}, 422)["code"] == "invalid_answer"
    resume(alice_api, run, {asked["id"]: {"answer": {"city": "Oslo"}}})
    assert InputRequest.objects.get().value == {"city": "Oslo"}


def test_an_answer_is_taken_once(wait, resume, alice_api):
    run = wait(OSLO)
    id = pending(alice_api, run)["tool"]["id"]
    resume(alice_api, run, {id: {"result": 1}})
    assert resume(alice_api, run, {id: {"result": 2}}, 409)["code"] == "already_answered"
    assert InputRequest.objects.get().value == 1


@pytest.mark.parametrize(
    ("second", "status", "code"),
    [
        ("00000000-0000-0000-0000-000000000000", 404, "unknown_input"),
        ("nothing", 404, "unknown_input"),
        ("approval", 422, "invalid_answer"),  # {"result"} is no decision
        ("decided", 409, "already_decided"),
    ],
)
def test_if_one_answer_cannot_be_taken_none_is(wait, resume, alice_api, alice, second, status, code):
    run = wait(OSLO, SUM)
    asked = pending(alice_api, run)
    answer = {"result": 1}
    if second in ("approval", "decided"):
        answer = {"answer": "approve"} if second == "decided" else answer
        Approval.objects.update(status="denied" if second == "decided" else "open")
        second = asked["approval"]["id"]
    error = resume(alice_api, run, {asked["tool"]["id"]: {"result": 1}, second: answer}, status)
    assert error["code"] == code
    assert InputRequest.objects.get().status == "open" and not AuditEvent.objects.filter(action="run.resumed").exists()
    run.refresh_from_db()
    assert run.status == "waiting"


@pytest.mark.parametrize(
    "body",
    [{}, {"inputs": {}}, {"inputs": []}, {"inputs": {"x": {}}}, {"inputs": {"x": {"result": 1, "answer": 1}}},
     {"inputs": {"x": {"value": 1}}}, {"inputs": {"x": {"error": {}}}}, {"inputs": {"x": {"result": 1}}, "more": 1}],
)  # fmt: skip
def test_a_body_of_another_shape_is_refused(wait, alice_api, body):
    assert alice_api.post(f"/api/v1/runs/{wait(OSLO).pk}/resume", body).status_code == 422
    assert InputRequest.objects.get().status == "open"


def test_a_cancelled_run_is_not_resumed(wait, resume, alice_api, alice, worker):
    run = wait(OSLO)
    id = pending(alice_api, run)["tool"]["id"]
    with worker.capture(execute=True):
        endings.cancel_run(run, by=alice)
    assert pending(alice_api, run) == {}
    resume(alice_api, run, {id: {"result": 1}}, 409)


@pytest.mark.parametrize("who", ["bob_api", "charlie_api"])
def test_neither_a_team_mate_nor_a_stranger_resumes_it(wait, resume, alice_api, request, who):
    run = wait(OSLO, SUM)
    api, asked = request.getfixturevalue(who), pending(alice_api, run)
    answers = {asked["tool"]["id"]: {"result": 1}, asked["approval"]["id"]: {"answer": "approve"}}
    assert resume(api, run, answers, 404)["code"] == "not_found"
    assert api.get(f"/api/v1/runs/{run.pk}").status_code == 404
    assert InputRequest.objects.get().status == Approval.objects.get().status == "open"


def test_an_input_of_another_run_is_unknown_here(wait, resume, alice_api, charlie_api):
    first, second = wait(OSLO), wait(OSLO)
    id = pending(alice_api, first)["tool"]["id"]
    assert resume(alice_api, second, {id: {"result": 1}}, 404)["code"] == "unknown_input"
    assert set(InputRequest.objects.values_list("status", flat=True)) == {"open"}


@pytest.mark.parametrize(
    ("scopes", "for_tool", "for_approval"),
    [(["*"], 202, 403), (["runs:write"], 403, 403), (["messages:write", "approvals:decide"], 202, 202)],
)
@pytest.mark.django_db(transaction=True)
def test_it_takes_the_scopes_of_inputs_and_of_approvals(wait, resume, alice, alice_api, scopes, for_tool, for_approval):
    run = wait(OSLO, SUM)
    asked = pending(alice_api, run)
    key = ApiClient(alice, ApiKey.make(alice, scopes)[1])
    resume(key, run, {asked["approval"]["id"]: {"answer": "approve"}}, for_approval)
    resume(key, run, {asked["tool"]["id"]: {"result": 1}}, for_tool)


def test_only_the_named_people_decide(wait, resume, alice_api):
    run = wait(SUM)
    Approval.objects.update(not_starter=True)
    assert resume(alice_api, run, {pending(alice_api, run)["approval"]["id"]: {"answer": "approve"}}, 403)
    assert Approval.objects.get().status == "open"


def test_the_first_run_of_a_tree_lists_what_those_below_it_wait_for(wait, resume, alice_api):
    run = wait(OSLO)
    parent = Run.objects.create(
        pk=uuid4(), principal=run.principal, agent=run.agent, version=run.version, status="waiting", waiting_for="child"
    )
    Run.objects.filter(pk=run.pk).update(parent=parent, root=parent)
    asked = pending(alice_api, parent)["tool"]
    assert asked["run"] == str(run.pk)
    resume(alice_api, parent, {asked["id"]: {"result": 1}})
    run.refresh_from_db()
    assert run.status == "succeeded"


def test_a_list_reads_what_all_its_runs_wait_for_at_once(wait, alice_api):
    def queries():
        with CaptureQueriesContext(connection) as taken:
            assert alice_api.get("/api/v1/runs/").status_code == 200
        return len(taken)

    wait(OSLO, SUM)
    queries()
    few = queries()
    wait(OSLO, SUM)
    wait(OSLO)
    assert queries() == few
