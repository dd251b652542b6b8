"""Agents that are called as tools: child runs."""

import pytest

from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


def test_a_minion_runs_as_a_child_and_its_end_wakes_the_parent(
    worker, alice, make_agent, make_tool, stub_provider, stub
):
    minion = make_agent("minion", provider=stub_provider)
    tool = make_tool("ask-minion", kind="agent", source={"agent": minion.pk}, input_schema={"type": "object"})
    boss = make_agent("boss", tools=[tool], provider=stub_provider)
    stub.script(calls(("ask-minion", {"task": "count"})), says("I counted 3"), says("The minion says 3"))
    run = worker.send_message(alice, "count", boss)
    assert run.status == "succeeded"
    child = run.children.get()
    assert (child.status, child.depth, child.trigger, child.root_id) == ("succeeded", 1, "agent", run.pk)
    assert run.tool_calls.get().result["reply"] == "I counted 3"


def test_a_minion_that_calls_itself_is_refused(worker, alice, make_agent, make_tool, stub_provider, stub):
    boss = make_agent("boss", provider=stub_provider)
    tool = make_tool("ask-boss", kind="agent", source={"agent": boss.pk}, input_schema={"type": "object"})
    boss.grants.create(tool=tool)
    boss.publish()
    stub.script(calls(("ask-boss", {"task": "again"})), says("no"))
    run = worker.send_message(alice, "again", boss)
    assert run.children.count() == 0
    assert run.tool_calls.get().error["code"] == "cycle"
