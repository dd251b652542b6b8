"""A person's answer: taken once, in time, within the schema of what it goes to, and followed at once."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Tool
from agents.tools import CallPending, ToolResult
from runs.calls import approvals
from runs.exceptions import AlreadyDecided
from runs.models import Approval, Run
from runs.queue import endings
from runs.worker import recovery
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent(tools=[make_tool()], provider=stub_provider)


@pytest.fixture
def asked(worker, alice, agent, stub, functions):
    """A run that waits for Alice's answer to add(1, 2)."""
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    return worker.send_message(alice, "add", agent)


def answer(api, worker, approval, status=200, **body):
    with worker.capture(execute=True):
        said = api.post(f"/api/v1/approvals/{approval.pk}", {"decision": "approve", **body})
    assert said.status_code == status, said.json()
    worker.work()
    return said.json() if status == 200 else said.json()["error"]


def test_edited_arguments_are_what_is_called_and_both_are_kept(alice_api, worker, asked, functions):
    said = answer(alice_api, worker, asked.approvals.get(), arguments={"a": 3, "b": 4}, note="rather these")
    assert (said["arguments"], said["edited_arguments"]) == ({"a": 1, "b": 2}, {"a": 3, "b": 4})
    assert (said["decided_by"], said["note"], said["status"]) == ("alice", "rather these", "approved")
    assert functions.asked[0][1] == {"a": 3, "b": 4}
    asked.refresh_from_db()
    assert asked.status == "succeeded"


@pytest.mark.parametrize("arguments", [{"a": "x", "b": 2}, {"a": 1}, {}])
def test_edited_arguments_that_break_the_schema_change_nothing(alice_api, worker, asked, functions, arguments):
    error = answer(alice_api, worker, asked.approvals.get(), 422, arguments=arguments)
    assert error["details"][0]["field"].startswith("arguments") and functions.asked == []
    assert Approval.objects.get().status == "open" and Run.objects.get().status == "waiting"


def test_another_tool_of_that_name_has_no_say(alice_api, worker, asked, charlie, functions):
    Tool.objects.create(owner=charlie, name="add", kind="function", description="", input_schema=NUMBER)
    answer(alice_api, worker, asked.approvals.get(), 422, arguments={"n": 1})
    answer(alice_api, worker, asked.approvals.get(), arguments={"a": 5, "b": 6})
    assert functions.asked[0][1] == {"a": 5, "b": 6}


def test_a_second_answer_is_a_conflict_that_says_what_was_decided(alice_api, worker, asked, functions):
    approval = asked.approvals.get()
    answer(alice_api, worker, approval, decision="deny", note="no")
    error = answer(alice_api, worker, approval, 409)
    assert error["code"] == "already_decided" and "denied" in error["message"] and functions.asked == []


def test_an_answer_to_a_run_that_is_being_stopped_is_a_conflict(alice, asked, functions):
    """A worker still holds it: it was told to stop, and has not ended yet."""
    Run._base_manager.update(status="running", lease_expires_at=timezone.now() + timedelta(seconds=30))
    endings.cancel_run(Run.objects.get(), by=alice)
    with pytest.raises(AlreadyDecided, match="its run was stopped"):
        approvals.decide_approval(Approval.objects.select_related("run").get(), "approve", by=alice)
    assert Approval.objects.get().status == "open" and functions.asked == []


def test_what_was_denied_after_the_question_is_not_called_whatever_the_answer(
    alice_api, worker, asked, agent, functions
):
    agent.grants.update(mode="deny")
    answer(alice_api, worker, asked.approvals.get())
    call = asked.tool_calls.get()
    assert functions.asked == [] and (call.outcome, call.error["code"]) == ("denied", "denied")
    assert "set to refuse every call" in call.error["message"]


def test_a_yes_does_not_wait_for_what_else_the_run_waits_for(
    alice, worker, make_agent, make_tool, stub_provider, stub, functions, alice_api
):
    away = make_tool("away", input_schema={"type": "object"})
    agent = make_agent(tools=[away, make_tool()], provider=stub_provider)
    agent.grants.filter(tool__name="add").update(mode="ask")
    later = timezone.now() + timedelta(minutes=2)
    functions.answers.extend([CallPending("timer", until=later), ToolResult(ok=True, value=3)])
    stub.script(calls(("away", {}), ("add", {"a": 1, "b": 2})))
    run = worker.send_message(alice, "both", agent)
    assert (run.status, run.waiting_for) == ("waiting", "timer")
    answer(alice_api, worker, run.approvals.get())
    run.refresh_from_db()
    assert sorted(call[0] for call in functions.asked) == ["add", "away"]
    assert (run.status, run.waiting_for) == ("waiting", "timer")


def test_an_expired_question_is_answered_by_its_default(worker, asked, functions):
    Approval.objects.update(default="approve", expires_at=timezone.now() - timedelta(seconds=1))
    with worker.capture(execute=True):
        assert recovery.tick_recovery()["expired_approvals"] == 1
    worker.work()
    asked.refresh_from_db()
    decided = asked.events.get(type="approval.decided").data
    assert asked.status == "succeeded" and functions.asked and (decided["status"], decided["by"]) == (
        "approved", "deadline"
    )  # fmt: skip
    assert recovery.tick_recovery()["expired_approvals"] == 0


# -- before a step, and of a chain's own tools ----------------------------------------------------------------------


def test_a_chains_tool_keeps_its_schema(alice_api, worker, make_tool, make_chain, run_chain, functions):
    make_tool("add", input_schema=NUMBER)
    run = run_chain(
        make_chain({"key": "one", "tool": "add", "input": {"n": "input.n"}}, grants={"add": "ask"}), {"n": 1}
    )
    error = answer(alice_api, worker, run.approvals.get(), 422, arguments={"n": "x"})
    assert error["details"] and functions.asked == []
    answer(alice_api, worker, run.approvals.get(), arguments={"n": 2})
    assert functions.asked[0][1] == {"n": 2}


def test_a_step_with_a_tool_keeps_its_schema(alice_api, worker, make_tool, make_chain, run_chain, functions):
    make_tool("add", input_schema=NUMBER)
    run = run_chain(make_chain({"key": "one", "tool": "add", "input": {"n": "input.n"}, "approval": True}), {"n": 1})
    answer(alice_api, worker, run.approvals.get(), 422, arguments={"n": "x"})
    answer(alice_api, worker, run.approvals.get(), arguments={"n": 2})
    assert functions.asked[0][1] == {"n": 2}


def test_a_step_with_an_agent_keeps_the_agents_input_schema(
    alice_api, worker, make_agent, stub_provider, stub, make_chain, run_chain
):
    make_agent(provider=stub_provider, input_schema=NUMBER)
    stub.script(says("hi"))
    step = {"key": "one", "agent": "helper", "input": {"message": "input.text", "n": "input.n"}, "approval": True}
    run = run_chain(make_chain(step), {"text": "Hi", "n": 1})
    answer(alice_api, worker, run.approvals.get(), 422, arguments={"message": "Hi", "n": "x"})
    answer(alice_api, worker, run.approvals.get(), arguments={"message": "Hello", "n": 2})
    assert run.children.get().input == {"n": 2} and Run.objects.get(pk=run.pk).status == "succeeded"


def test_a_step_with_a_chain_keeps_that_chains_input_schema(
    alice_api, worker, make_tool, make_chain, run_chain, functions
):
    inner = {"key": "two", "tool": "add", "input": {"n": "input.n"}}
    make_tool("add", input_schema=NUMBER)
    make_chain(inner, name="inner", input_schema=NUMBER)
    outer = {"key": "one", "chain": "inner", "input": {"n": "input.n"}, "approval": True}
    run = run_chain(make_chain(outer, name="outer"), {"n": 1})
    answer(alice_api, worker, run.approvals.get(), 422, arguments={"n": "x"})
    answer(alice_api, worker, run.approvals.get(), arguments={"n": 2})
    assert functions.asked[0][1] == {"n": 2}
