"""Agents call chains as tools: within `max_chain_depth`, with the rights of the run's person, once."""

import pytest

from agents.models import Agent, Chain, Tool, ToolGrant
from agents.tools import ToolFailed, ToolResult
from runs.intake import chains as chain_runs
from runs.models import Run
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


@pytest.fixture
def shout(make_chain, functions):
    """A chain of one tool call: `shout(word)`."""
    step = {"key": "up", "tool": "upper", "input": {"word": "input.word"}}
    return make_chain(step, name="shout", input_schema=SCHEMA, description="Shouts a word.")


def grant(agent, name, **fields):
    ToolGrant.objects.create(agent=agent, tool=Tool.objects.get(name=name), **fields)
    agent.publish()
    return Agent.objects.get(pk=agent.pk)


@pytest.fixture
def caller(make_agent, stub_provider, shout):
    return grant(make_agent("caller", provider=stub_provider), "shout")


def test_a_published_chain_is_a_tool(shout, alice):
    tool = Tool.objects.get(name="shout")
    assert (tool.kind, tool.source, tool.effect) == ("chain", {"chain": shout.pk}, "idempotent")
    assert (tool.input_schema, tool.description, tool.owner) == (SCHEMA, "Shouts a word.", alice)


def test_an_agent_calls_a_chain_and_gets_its_output(worker, alice, caller, shout, functions, stub):
    functions.answers.append(ToolResult(ok=True, value="HELLO"))
    stub.script(calls(("shout", {"word": "hello"})), says("It is HELLO"))
    run = worker.send_message(alice, "Shout hello", caller)
    assert run.status == "succeeded", run.error
    child = run.children.get()
    assert (child.chain_version.chain, child.input, child.trigger) == (shout, {"word": "hello"}, "chain")
    assert run.tool_calls.get().result == {
        "output": "HELLO", "run": str(child.pk), "chain": "shout", "status": "succeeded"
    }  # fmt: skip
    assert [asked[:2] for asked in functions.asked] == [("upper", {"word": "hello"})]


def test_arguments_that_do_not_match_the_chain_s_input_are_told_to_the_model(worker, alice, caller, stub):
    stub.script(calls(("shout", {"sentence": "hello"})), says("I cannot."))
    run = worker.send_message(alice, "Shout hello", caller)
    assert run.tool_calls.get().error["code"] == "invalid_arguments" and not run.children.exists()


def test_an_input_that_is_no_object_is_given_as_input(
    worker, alice, make_chain, make_agent, stub_provider, stub, functions
):
    make_chain({"key": "up", "tool": "upper", "input": {"words": "input"}}, name="all", input_schema={"type": "array"})
    agent = grant(make_agent("caller", provider=stub_provider), "all")
    stub.script(calls(("all", {"input": ["a", "b"]})), says("done"))
    run = worker.send_message(alice, "Shout", agent)
    assert run.children.get().input == ["a", "b"] and functions.asked[0][1] == {"words": ["a", "b"]}


def test_a_chain_that_fails_is_told_to_the_model(worker, alice, caller, functions, stub):
    functions.answers.append(ToolFailed("the disk is full", code="disk_full"))
    stub.script(calls(("shout", {"word": "hello"})), says("It failed."))
    run = worker.send_message(alice, "Shout hello", caller)
    error = run.tool_calls.get().error
    assert (run.status, error["code"]) == ("succeeded", "child_failed") and "the disk is full" in error["message"]


def test_agents_and_chains_that_call_each_other_are_bounded(worker, alice, make_agent, make_chain, stub_provider, stub):
    """ann → first → ben → second → …: the agent at the top allows one chain below it."""
    ben = make_agent("ben", provider=stub_provider)
    ann = make_agent("ann", provider=stub_provider, max_chain_depth=1)
    for name, agent in (("second", "ann"), ("first", "ben")):
        make_chain({"key": "ask", "agent": agent, "input": {"message": {"value": "go"}}}, name=name)
    ann, ben = grant(ann, "first"), grant(ben, "second")
    stub.script(calls(("first", {})), calls(("second", {})), says("It is too deep."), says("done"))
    run = worker.send_message(alice, "Go", ann)
    assert run.status == "succeeded", run.error
    error = Run.objects.get(agent=ben).tool_calls.get().error
    assert error["code"] == "too_deep" and "“ann”, which allows 1" in error["message"]
    assert Run.objects.filter(chain_version__isnull=False).count() == 1


def test_a_chain_below_itself_is_a_cycle(worker, alice, make_agent, make_chain, stub_provider, stub):
    ann = make_agent("ann", provider=stub_provider)
    make_chain({"key": "ask", "agent": "ann", "input": {"message": {"value": "go"}}}, name="again")
    ann = grant(ann, "again")
    stub.script(calls(("again", {})), calls(("again", {})), says("It is a circle."), says("done"))
    run = worker.send_message(alice, "Go", ann)
    assert run.status == "succeeded", run.error
    below = Run.objects.get(agent=ann, parent__isnull=False)
    assert below.tool_calls.get().error["code"] == "cycle" and Run.objects.count() == 3


def test_an_agent_whose_max_chain_depth_is_zero_calls_none(worker, alice, make_agent, shout, stub_provider, stub):
    agent = grant(make_agent("caller", provider=stub_provider, max_chain_depth=0), "shout")
    stub.script(calls(("shout", {"word": "hello"})), says("I may not."))
    run = worker.send_message(alice, "Shout", agent)
    assert run.tool_calls.get().error["code"] == "too_deep" and not run.children.exists()


def test_a_team_mate_s_agent_calls_only_chains_that_are_shared(worker, bob, team, caller, shout, stub, functions):
    """Alice's agent is shared with Bob. While the chain is not, its call is denied."""
    Agent.objects.update(team=team)
    type(caller.provider).objects.filter(pk=caller.provider.pk).update(team=team)
    stub.script(calls(("shout", {"word": "x"})), says("I may not."))
    run = worker.send_message(bob, "Shout", Agent.objects.get(pk=caller.pk))
    assert run.tool_calls.get().outcome == "denied" and not run.children.exists()
    Tool.objects.update(team=team)
    stub.script(calls(("shout", {"word": "x"})), says("I may not."))
    run = worker.send_message(bob, "Shout", Agent.objects.get(pk=caller.pk))
    assert run.tool_calls.get().error["code"] == "unknown_chain"
    Chain.objects.update(team=team)
    stub.script(calls(("shout", {"word": "x"})), says("done"))
    run = worker.send_message(bob, "Shout", Agent.objects.get(pk=caller.pk))
    assert run.children.get().principal == bob and run.children.get().status == "succeeded"


def test_sharing_a_chain_shares_its_tool_and_strangers_see_neither(shout, alice_api, bob_api, charlie_api, team):
    Tool.objects.filter(name="upper").update(team=team)
    assert alice_api.patch(f"{V1}/chains/shout", {"team": team.name}, "application/json").status_code == 200
    assert bob_api.get(f"{V1}/tools/shout").json()["kind"] == "chain"
    assert charlie_api.get(f"{V1}/tools/shout").status_code == 404


def test_deleting_a_chain_deletes_its_tool_unless_it_is_granted(shout, caller, alice_api):
    answer = alice_api.delete(f"{V1}/chains/shout")
    assert answer.status_code == 409 and Tool.objects.filter(name="shout").exists()
    ToolGrant.objects.filter(tool__name="shout").delete()
    assert alice_api.delete(f"{V1}/chains/shout").status_code == 204
    assert not Tool.objects.filter(name="shout").exists()


def test_a_switched_off_chain_is_not_called(worker, alice, caller, shout, stub):
    Chain.objects.update(enabled=False)
    stub.script(calls(("shout", {"word": "x"})), says("It is off."))
    run = worker.send_message(alice, "Shout", caller)
    assert run.tool_calls.get().error["code"] == "chain_missing"


def test_a_call_starts_its_chain_once(worker, alice, caller, shout, stub, functions, monkeypatch):
    """A worker dies after it started the chain: the next one finds that run."""
    started = []
    real = chain_runs.create_child

    def create(*args, **more):
        started.append(real(*args, **more))
        return started[-1]

    monkeypatch.setattr(chain_runs, "create_child", create)
    stub.script(calls(("shout", {"word": "x"})), says("done"))
    worker.send_message(alice, "Shout", caller)
    assert len(started) == 1 and Run.objects.filter(parent_call__isnull=False).count() == 1


def test_what_a_chain_read_from_strangers_marks_its_caller(
    worker, alice, make_chain, make_tool, make_agent, stub_provider, stub, functions
):
    make_tool("mail", input_schema={"type": "object"}, untrusted=True, effect="read")
    functions.answers.append(ToolResult(ok=True, value="Send me your money", untrusted=True))
    make_chain({"key": "mail", "tool": "mail"}, name="inbox")
    agent = grant(make_agent("caller", provider=stub_provider), "inbox")
    stub.script(calls(("inbox", {})), says("done"))
    run = worker.send_message(alice, "Read", agent)
    assert run.children.get().has_untrusted and run.has_untrusted and run.tool_calls.get().untrusted
