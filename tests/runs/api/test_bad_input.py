"""What people and models should not send: refused with a reason, nothing half-done, nothing hung."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.tools import ToolResult
from runs.models import Approval, Run
from tests.fakes import Turn, calls, says

pytestmark = pytest.mark.django_db
GARBAGE = Turn(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n<html")


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent(tools=[make_tool()], provider=stub_provider)


@pytest.fixture
def approval(worker, alice, agent, stub):
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    return worker.send_message(alice, "add", agent).approvals.get()


def test_an_answer_after_the_expiry_is_a_conflict(approval, alice_api, functions):
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    late = alice_api.post(f"/api/v1/approvals/{approval.pk}", {"decision": "approve"})
    assert late.status_code == 409 and late.json()["error"]["hint"]
    assert functions.asked == []


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_an_approval_of_a_run_that_has_ended_is_a_conflict(approval, alice_api, functions, decision):
    assert alice_api.post(f"/api/v1/runs/{approval.run_id}/cancel").status_code == 200
    assert alice_api.post(f"/api/v1/approvals/{approval.pk}", {"decision": decision}).status_code == 409
    assert functions.asked == []


def test_a_model_that_returns_garbage_twenty_times_ends_the_run_with_a_reason(worker, alice, agent, stub):
    stub.script(*[GARBAGE] * 20)
    run = worker.send_message(alice, "add", agent)
    assert run.status == "failed" and run.error["code"] and run.error["message"]
    assert len(stub.requests) < 20


@pytest.mark.circles
@pytest.mark.parametrize("arguments", ["{not json", '{"a": "one"}', "[]"])
def test_a_model_whose_arguments_are_garbage_twenty_times_ends_the_run(
    worker, alice, agent, stub, functions, arguments
):
    stub.script(*[calls(("add", arguments))] * 20)
    run = worker.send_message(alice, "add", agent)
    assert run.status in {"failed", "partial"} and run.error["code"] in {"stuck", "max_steps"}, run.error
    assert functions.asked == [] and len(stub.requests) <= 20


def test_a_result_that_its_readers_could_not_open_is_a_failed_call(worker, alice, alice_api, agent, stub, functions):
    """JSON's readers recurse: a row that one thread could write broke every list that it was in."""
    deep: list = []
    for _ in range(900):
        deep = [deep]
    functions.answers.append(ToolResult(ok=True, value=deep))
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    run = worker.send_message(alice, "add", agent)
    assert (run.status, run.tool_calls.get().error["code"]) == ("succeeded", "too_deep")


@pytest.mark.parametrize("depth", [201, 900, 100_000])
def test_a_body_that_nests_without_end_is_refused(alice_api, agent, depth):
    body = f'{{"message": "hi", "metadata": {"[" * (depth - 1)}{"]" * (depth - 1)}}}'
    answer = alice_api.post("/api/v1/agents/helper/messages", body, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed")


def test_a_policy_that_names_an_unknown_tool_is_refused_before_anything_runs(alice_api, agent):
    step = {"key": "ask", "agent": "helper", "policy": {"allowed": ["no-such-tool"]}}
    body = {"name": "asker", "description": "Asks.", "steps": [step]}
    assert alice_api.post("/api/v1/chains/", body).status_code == 201
    refused = alice_api.post("/api/v1/chains/asker/publish")
    (problem,) = refused.json()["error"]["details"]
    assert refused.status_code == 422 and "no-such-tool" in problem["message"] and problem["hint"]
    assert alice_api.post("/api/v1/chains/asker/runs", {"input": {}}).status_code == 409
    assert not Run.objects.exists()
