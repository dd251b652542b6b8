"""Unsharing works at once: what a run uses is asked of its person at each call."""

import pytest

from agents import membership
from agents.models import Agent, Chain, Membership, Provider, Tool
from agents.tools import ToolResult
from runs.calls import approvals
from runs.chains import slices
from runs.intake import messages as intake
from tests.fakes import calls, says


@pytest.fixture
def shared(make_agent, make_tool, stub_provider, team, bob):
    """Alice's agent with a tool, both shared with Bob."""
    tool = make_tool("lookup", input_schema={"type": "object"})
    agent = make_agent("helper", tools=[tool], provider=stub_provider)
    Tool.objects.update(team=team)
    Agent.objects.update(team=team)
    Provider.objects.filter(pk=stub_provider.pk).update(team=team)
    return Agent.objects.get(pk=agent.pk)


def test_what_is_shared_can_be_used(worker, bob, shared, stub, functions):
    stub.script(calls(("lookup", {})), says("done"))
    assert worker.send_message(bob, "look", shared).status == "succeeded"
    assert len(functions.asked) == 1


def test_a_tool_that_is_unshared_is_denied_to_others_and_not_to_its_owner(worker, alice, bob, shared, stub, functions):
    Tool.objects.update(team=None)
    stub.script(calls(("lookup", {})), says("done"))
    run = worker.send_message(bob, "look", shared)
    assert (run.status, functions.asked) == ("succeeded", [])
    assert run.tool_calls.get().outcome == "denied"
    stub.script(calls(("lookup", {})), says("done"))
    worker.send_message(alice, "look", shared)
    assert len(functions.asked) == 1


@pytest.mark.parametrize("what", [Agent, Provider])
def test_a_run_ends_before_its_next_model_call(worker, bob, shared, stub, functions, what):
    def unshare(call, context):
        what.objects.update(team=None)

        return ToolResult(ok=True, value=1)

    functions.answers.append(unshare)
    stub.script(calls(("lookup", {})), says("never said"))
    run = worker.send_message(bob, "look", shared)
    assert (run.status, run.error["code"], len(stub.requests)) == ("failed", "not_shared", 1)


def test_who_is_made_a_viewer_or_removed_uses_it_no_more(worker, bob, shared, stub, functions):
    def demote(call, context):
        Membership.objects.filter(user=bob).update(role="viewer")

        return ToolResult(ok=True, value=1)

    functions.answers.append(demote)
    stub.script(calls(("lookup", {})), says("never said"))
    assert worker.send_message(bob, "look", shared).error["code"] == "not_shared"


def test_a_mate_s_private_provider_is_not_lent_with_the_agent(worker, bob, shared, stub):
    Provider.objects.update(team=None)
    stub.script(says("never said"))
    run = worker.send_message(bob, "look", shared)
    assert (run.error["code"], stub.requests) == ("not_shared", [])


def test_the_conversation_of_a_person_who_was_removed_is_not_summed_up(worker, bob, shared, stub):
    """The summary would be a model call before the first turn."""
    Agent.objects.update(session_context="summary", context_messages=2)
    shared.refresh_from_db()
    shared.publish()
    session = None
    for text in ("one", "two"):
        stub.script(says("well"))
        session = worker.send_message(bob, text, shared, session=session).session
    with worker.capture(execute=True):
        run = intake.accept_message(user=bob, text="three", agent=shared, session=session).run
    membership.end_membership(Membership.objects.get(user=bob))
    stub.script(says("never said"))
    worker.work()
    run.refresh_from_db()
    assert (run.error["code"], len(stub.requests)) == ("not_shared", 2)


def test_a_call_that_was_approved_too_late_is_not_made(worker, bob, shared, stub, functions):
    Tool.objects.update(owner=None, team=None)
    shared.grants.update(mode="ask")
    stub.script(calls(("lookup", {})), says("never said"))
    run = worker.send_message(bob, "look", shared)
    membership.end_membership(Membership.objects.get(user=bob))
    with worker.capture(execute=True):
        approvals.decide_approval(run.approvals.get(), "approve", by=bob)
    worker.work()
    run.refresh_from_db()
    assert (run.error["code"], functions.asked) == ("not_shared", [])


@pytest.fixture
def shared_chain(make_chain, team, bob):
    chain = make_chain({"key": "one", "tool": "one"}, {"key": "two", "tool": "two"}, strategy="sequential")
    Tool.objects.update(team=team)
    Chain.objects.update(team=team)
    return Chain.objects.get(pk=chain.pk)


def test_a_chain_is_asked_for_between_its_steps(run_chain, alice, bob, shared_chain, functions):
    def unshare(call, context):
        Chain.objects.update(team=None)
        return ToolResult(ok=True, value=1)

    assert run_chain(shared_chain, user=bob).status == "succeeded"
    functions.answers.append(unshare)
    run = run_chain(shared_chain, user=bob)
    assert (run.status, run.error["code"]) == ("failed", "not_shared")
    assert [asked[0] for asked in functions.asked] == ["one", "two", "one"]
    assert run_chain(Chain.objects.get(), user=alice).status == "succeeded"


def test_a_chain_that_is_unshared_stops_between_two_slices_of_items(
    run_chain, bob, make_chain, team, functions, monkeypatch
):
    monkeypatch.setattr(slices, "SLICE_S", 0)
    make_chain({"key": "each", "tool": "one", "for_each": "input", "max_parallel": 1})
    Tool.objects.update(team=team)
    Chain.objects.update(team=team)

    def unshare(call, context):
        Chain.objects.update(team=None)
        return ToolResult(ok=True, value=1)

    functions.answers.append(unshare)
    run = run_chain(Chain.objects.get(), list(range(50)), user=bob)
    assert (run.status, run.error["code"]) == ("failed", "not_shared")
    assert len(functions.asked) < 50
