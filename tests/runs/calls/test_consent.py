"""Somebody else's agent or chain uses a person's devices and accounts once the person has agreed, whatever its grants
say.
"""

import pytest

from agents.models import Agent, Chain, Tool, ToolGrant
from agents.models.agent import tool_changed
from agents.tools import ToolResult
from devices import catalog
from knowledge.collections import catalog as collections
from knowledge.models import CollectionFolder
from runs.calls import approvals, grants
from runs.models import Approval, Run, ToolCallRecord
from tests.devices.scripted import paired
from tests.fakes import calls, says
from tests.knowledge.documents import collection_with

pytestmark = pytest.mark.django_db
SECRET = "The alarm code is 4711."


@pytest.fixture
def notes(bob, agent_call):
    """The tools for notes, and a note of Bob's."""
    catalog.ensure_tools()
    agent_call(bob, "create_note", title=SECRET, content="Keep it.")
    return Tool.objects.filter(name__in=["list_notes", "create_note"])


@pytest.fixture
def shared(make_agent, notes, stub_provider, team, bob):
    """Alice's agent with tools for notes, all of them allowed, which Bob may use."""
    stub_provider.team = team
    stub_provider.save()
    made = make_agent("clerk", tools=notes, provider=stub_provider)
    ToolGrant.objects.update(mode="allow", allow_after_untrusted=True)
    Agent.objects.update(team=team)
    return Agent.objects.get(pk=made.pk)


def reads():
    return calls(("list_notes", {"search": "alarm"}))


def approve(worker, run, by):
    with worker.capture(execute=True):
        approvals.decide_approval(run.approvals.get(status="open"), "approve", by=by)
    worker.work()
    return Run.objects.get(pk=run.pk)


def outcomes():
    return [record.outcome for record in ToolCallRecord.objects.order_by("id")]


def test_it_reads_no_note_before_the_person_agreed(worker, bob, shared, stub):
    stub.script(reads(), says("never said"))
    run = worker.send_message(bob, "What is up?", shared)
    asked = Approval.objects.get()
    assert (run.status, asked.status, asked.tool, asked.default) == ("waiting", "open", "list_notes", "deny")
    assert "somebody else's agent" in asked.reason and list(asked.deciders()) == [bob]
    assert SECRET not in str([request["messages"] for request in stub.requests])


def test_what_was_agreed_holds_for_the_version_and_the_tool(worker, bob, shared, stub):
    stub.script(reads(), says("4711"), reads(), says("4711"), calls(("create_note", {"title": "x", "content": "y"})))
    run = worker.send_message(bob, "What is up?", shared)
    assert approve(worker, run, bob).status == "succeeded"
    assert worker.send_message(bob, "And now?", shared).status == "succeeded"
    assert worker.send_message(bob, "Write it down", shared).status == "waiting"  # another tool
    assert outcomes() == ["ok", "ok", ""]


def test_a_tool_with_another_effect_asks_again(worker, bob, shared, stub):
    stub.script(reads(), says("4711"), reads())
    run = worker.send_message(bob, "What is up?", shared)
    assert approve(worker, run, bob).status == "succeeded"
    tool = Tool.objects.get(name="list_notes")
    tool.effect = "sends_out"
    tool.freeze_hash()
    tool.save()
    tool_changed(tool)
    assert worker.send_message(bob, "And now?", Agent.objects.get(pk=shared.pk)).status == "waiting"
    assert Approval.objects.get(status="open").effect == "sends_out"


def test_another_version_asks_again(worker, bob, alice, shared, stub):
    stub.script(reads(), says("4711"), reads())
    approve(worker, worker.send_message(bob, "What is up?", shared), bob)
    shared.system_prompt = "You send notes to my server."
    shared.save()
    shared.publish(author=alice)
    assert worker.send_message(bob, "And now?", Agent.objects.get()).status == "waiting"


@pytest.mark.parametrize("decides", ["owner", "team"])
def test_nobody_agrees_in_the_persons_place(worker, alice, bob, shared, stub, decides):
    """Where others decide about each call, they do so as soon as the person has agreed."""
    ToolGrant.objects.update(mode="ask", decides=decides, not_starter=True)
    stub.script(reads(), reads(), says("4711"))
    run = worker.send_message(bob, "What is up?", shared)
    first = Approval.objects.get()
    assert list(first.deciders()) == [bob]
    run = approve(worker, run, bob)
    second = Approval.objects.exclude(pk=first.pk).get()
    assert run.status == "waiting" and bob not in second.deciders() and outcomes() == ["denied", ""]


def test_nobody_answers(worker, bob, shared, stub, settings):
    settings.APPROVAL_DEFAULT = "approve"
    stub.script(reads())
    worker.send_message(bob, "What is up?", shared)
    assert Approval.objects.get().default == "deny"


def test_own_agents_and_the_sites_need_no_question(worker, alice, bob, shared, stub, agent_call):
    stub.script(reads(), says("Nothing."), reads(), says("4711"))
    assert worker.send_message(alice, "What is up?", shared).status == "succeeded"
    Agent.objects.update(owner=None, team=None)
    assert worker.send_message(bob, "What is up?", Agent.objects.get()).status == "succeeded"
    assert not Approval.objects.exists()


def test_the_line_above_counts(worker, alice, bob, shared, make_agent, stub_provider, stub, team):
    """An agent of the site that Alice's agent asks reads Bob's notes for Alice's agent."""
    Agent.objects.update(owner=None, team=None)
    Tool.objects.filter(name="clerk").update(owner=None, team=None)
    boss = make_agent("boss", tools=[Tool.objects.get(name="clerk")], provider=stub_provider)
    Agent.objects.filter(pk=boss.pk).update(owner=alice, team=team)
    stub.script(calls(("clerk", {"task": "Find the alarm code"})), reads(), says("never said"))
    worker.send_message(bob, "What is up?", Agent.objects.get(name="boss"))
    assert Approval.objects.get().run.agent.name == "clerk" and outcomes()[-1] == ""


def test_a_chain_of_somebody_else_asks_too(run_chain, make_chain, notes, team, alice, bob):
    make_chain({"key": "find", "tool": "list_notes", "input": {}}, name="report")
    Chain.objects.update(owner=alice, team=team)
    run = run_chain(Chain.objects.get(), user=bob)
    assert run.status == "waiting" and Approval.objects.get().tool == "list_notes"


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_collection_with_a_folder_of_the_persons_device_asks_too(
    worker, alice, bob, make_agent, stub_provider, stub, team, is_pinned
):
    """Bob's own collection searches his laptop, for Bob alone; an agent of Alice's would read the excerpts."""
    handbook = collection_with(bob, {"returns.md": "Goods may be returned within 30 days."}, team=team)
    collections.save_collection_tools(handbook)
    CollectionFolder.objects.create(collection=handbook, owner=bob, device_id=paired(bob)[0].pk, path="docs")
    stub_provider.team = team
    stub_provider.save()
    search = Tool.objects.get(name="search-handbook")
    pins = {"search-handbook": handbook.version} if is_pinned else {}
    agent = make_agent("clerk", tools=[search], provider=stub_provider, team=team)
    ToolGrant.objects.update(pinned_version=pins.get("search-handbook"))
    agent.publish(author=alice)
    stub.script(calls(("search-handbook", {"query": "goods"})), says("In 30 days."))
    run = worker.send_message(bob, "How long?", Agent.objects.get())
    if is_pinned:  # an earlier version asks no device
        assert run.status == "succeeded"
        return
    assert (run.status, Approval.objects.get().tool) == ("waiting", "search-handbook")
    assert approve(worker, run, bob).status == "succeeded"
    stub.script(calls(("search-handbook", {"query": "goods"})), says("In 30 days."))
    assert worker.send_message(bob, "And now?", agent).status == "succeeded"
    stub.script(calls(("search-handbook", {"query": "goods"})), says("In 30 days."))
    assert worker.send_message(alice, "How long?", agent).status == "succeeded", "no device of hers is asked"


def test_a_function_of_somebody_else_reads_nothing_in_its_callback(worker, bob, shared, stub, functions, make_tool):
    """Until the person agreed to a call of the agent itself: a callback cannot wait for an answer."""
    ToolGrant.objects.create(agent=shared, tool=make_tool("peek", input_schema={"type": "object"}))
    Tool.objects.filter(name="peek").update(team=shared.team)
    shared.publish(author=shared.owner)
    functions.answers.extend([peek, peek])
    stub.script(calls(("peek", {})), reads(), calls(("peek", {})), says("done"))
    run = worker.send_message(bob, "What is up?", Agent.objects.get())
    assert run.status == "waiting" and outcomes() == ["failed", ""]
    assert approve(worker, run, bob).status == "succeeded"
    assert SECRET in str(ToolCallRecord.objects.filter(name="peek").order_by("id").last().result)


def peek(call, context):
    return ToolResult(ok=True, value=context.call_tool("list_notes", {"search": "alarm"}))


def test_it_costs_own_agents_no_query(worker, alice, shared, stub, django_assert_num_queries):
    stub.script(says("Hello."))
    run = worker.send_message(alice, "Hello", shared)
    tools = {tool.name: tool for tool in Tool.objects.filter(kind="device")}
    run = Run.objects.select_related("agent").get(pk=run.pk)
    with django_assert_num_queries(0):
        assert grants.find_unconsented_tools(run, tools, set()) == frozenset()
