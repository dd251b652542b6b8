"""Work finds whoever can do it, and the choice is recorded with its reasons."""

import pytest

from agents.models import Agent, Provider, Tool, ToolGrant
from runs.models import Run
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


@pytest.fixture
def delegate(alice):
    return Tool.objects.create(name="delegate", kind="builtin", source={"builtin": "delegate"}, effect="idempotent")


@pytest.fixture
def chief(make_agent, delegate, stub_provider):
    return make_agent("chief", tools=[delegate], provider=stub_provider)


def hands_on(capability, task="Translate “good day”"):
    return calls(("delegate", {"capability": capability, "task": task}))


def test_a_task_goes_to_whoever_can_do_it(worker, alice, chief, make_agent, stub_provider, stub):
    make_agent("translator", provider=stub_provider, capabilities=["translation"])
    stub.script(hands_on("translation"), says("bonjour"), says("It is “bonjour”."))
    run = worker.send_message(alice, "How do I greet in French?", chief)
    assert run.status == "succeeded" and run.messages.last().text == "It is “bonjour”."
    record = run.tool_calls.get()
    assert record.result["reply"] == "bonjour" and record.result["agent"] == "translator"
    assert (
        record.details["delegated"]["agent"] == "translator" and "capability" in record.details["delegated"]["reason"]
    )
    chosen = run.events.get(type="child.chosen").data
    assert chosen["capability"] == "translation" and chosen["candidates"][0]["agent"] == "translator"
    assert Run.objects.get(parent=run).agent.name == "translator"


def test_a_capability_nobody_has_is_told_to_the_model(worker, alice, chief, stub):
    stub.script(hands_on("astronomy"), says("I cannot."))
    run = worker.send_message(alice, "Find Mars", chief)
    assert run.status == "succeeded" and run.tool_calls.get().error["code"] == "nobody_fits"


def test_an_agent_does_not_delegate_to_itself(worker, alice, chief, stub):
    Agent.objects.filter(pk=chief.pk).update(capabilities=["astronomy"])
    chief = Agent.objects.get(pk=chief.pk)
    chief.publish()
    stub.script(hands_on("astronomy"), says("I cannot."))
    run = worker.send_message(alice, "Find Mars", Agent.objects.get(pk=chief.pk))
    assert "already working" in run.tool_calls.get().error["message"] and not Run.objects.filter(parent=run).exists()


def test_only_the_named_capabilities_may_be_delegated(worker, alice, make_agent, delegate, stub_provider, stub):
    chief = make_agent("chief", tools=[delegate], provider=stub_provider, delegates_to=["cooking"])
    stub.script(hands_on("translation"), says("I cannot."))
    run = worker.send_message(alice, "How do I greet in French?", chief)
    assert run.tool_calls.get().error["code"] == "not_delegable"


def test_a_cycle_of_three_ends_with_a_reason(worker, alice, make_agent, stub_provider, stub):
    """ann → ben → eve → ann: the third call is refused, and everybody ends."""
    people = {}
    for name in ("ann", "ben", "eve"):
        people[name] = make_agent(name, provider=stub_provider, max_agent_depth=5)
    for caller, called in (("ann", "ben"), ("ben", "eve"), ("eve", "ann")):
        ToolGrant.objects.create(agent=people[caller], tool=Tool.objects.get(name=called))
        agent = Agent.objects.get(pk=people[caller].pk)
        agent.publish()
    pass_on = {"task": "You do it"}
    stub.script(
        calls(("ben", pass_on)), calls(("eve", pass_on)), calls(("ann", pass_on)), says("No."), says("No!"), says("No?")
    )
    run = worker.send_message(alice, "Do it", Agent.objects.get(name="ann"))
    assert run.status == "succeeded"
    eve = Run.objects.get(agent__name="eve")
    assert eve.tool_calls.get().error["code"] == "cycle" and Run.objects.count() == 3


def test_publishing_an_agent_offers_it_as_a_tool(alice, make_agent):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    agent = make_agent("guide", description="Knows cities.", input_schema=schema)
    tool = Tool.objects.get(name="guide")
    assert (tool.kind, tool.source, tool.description) == ("agent", {"agent": agent.pk}, "Knows cities.")
    assert tool.input_schema["required"] == ["task", "input"] and tool.owner == alice


def test_a_tool_of_that_name_is_left_alone(alice, make_agent, make_tool):
    make_tool("add")
    make_agent("add")
    assert Tool.objects.get(name="add").kind == "function"


def test_an_agent_behind_a_tool_is_the_one_it_names_whatever_the_callers_own_are_called(
    worker, alice, bob, team, make_agent, make_tool, stub_provider, stub
):
    theirs = make_agent("counter", provider=stub_provider)
    tool = make_tool("ask-counter", kind="agent", source={"agent": theirs.pk}, input_schema={"type": "object"})
    boss = make_agent("boss", tools=[tool], provider=stub_provider)
    for model in (Agent, Tool, Provider):
        model.objects.update(team=team)
    make_agent("other", provider=stub_provider)
    Agent.objects.filter(name="other").update(name="counter", owner=bob)
    stub.script(calls(("ask-counter", {"task": "count"})), says("I counted 3"), says("It is 3"))
    run = worker.send_message(bob, "count", Agent.objects.get(pk=boss.pk))
    assert run.status == "succeeded", run.error
    assert run.children.get().agent_id == theirs.pk
