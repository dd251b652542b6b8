"""A time limit stops the work: the function's process is killed, whoever set the limit."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Agent, Tool, ToolGrant
from agents.tools import ToolContext, ToolResult
from runs.models import ToolCallRecord
from tests.fakes import calls, says
from tests.functions.library import publish

pytestmark = pytest.mark.django_db
SLEEP = "import time\n\ndef nap() -> str:\n    time.sleep(300)\n    return 'rested'\n"
SOON_S = 25  # on a busy machine; the function's own limit would end it after thirty


@pytest.fixture
def nap(alice):
    publish(alice, SLEEP, "nap", allowed_imports=["time"])
    return Tool.objects.get(name="nap")


@pytest.fixture
def took():
    """Seconds since the test began."""
    began = time.monotonic()
    return lambda: time.monotonic() - began


def test_a_step_s_limit_stops_a_function(make_chain, run_chain, nap, took):
    run = run_chain(make_chain({"key": "rest", "tool": "nap", "timeout_s": 1}))
    record = ToolCallRecord.objects.get(run=run)
    assert (run.status, record.error["code"]) == ("failed", "timeout") and took() < SOON_S


def test_a_grant_s_limit_stops_a_function(worker, alice, make_agent, nap, stub_provider, stub, took):
    agent = make_agent(provider=stub_provider)
    ToolGrant.objects.create(agent=agent, tool=nap, deadline_s=1)
    agent.publish(author=alice)
    stub.script(calls(("nap", {})), says("It took too long."))
    run = worker.send_message(alice, "Rest", Agent.objects.get(pk=agent.pk))
    assert (run.status, run.tool_calls.get().error["code"]) == ("succeeded", "timeout") and took() < SOON_S


def test_a_run_s_limit_stops_a_function(worker, alice, make_agent, nap, stub_provider, stub, took):
    stub.script(calls(("nap", {})), says("never said"))
    run = worker.send_message(alice, "Rest", make_agent(tools=[nap], provider=stub_provider), timeout=2)
    assert (run.status, run.error["code"]) == ("expired", "deadline") and took() < SOON_S


def test_a_run_s_limit_stops_a_chain_s_function(make_chain, run_chain, nap, took):
    run = run_chain(make_chain({"key": "rest", "tool": "nap"}), timeout=2)
    assert (run.status, run.error["code"]) == ("expired", "deadline") and took() < SOON_S


def test_a_deadline_while_the_model_answers_ends_as_every_deadline(worker, alice, make_agent, stub_provider, stub):
    stub.script(says("too late", silent_s=300))
    run = worker.send_message(alice, "Hello", make_agent(provider=stub_provider), timeout=1)
    assert (run.status, run.error["code"]) == ("expired", "deadline")


def test_a_callback_has_no_more_time_than_the_call_that_makes_it(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions
):
    deadlines = []

    def answer(call, context):
        deadlines.append(context.deadline)
        if call.name == "outer":
            context.call_tool("inner", {})
        return ToolResult(ok=True, value=1)

    functions.answers.extend([answer, answer])
    outer, inner = (make_tool(name, input_schema={"type": "object"}) for name in ("outer", "inner"))
    Tool.objects.filter(pk=outer.pk).update(deadline_s=5)
    Tool.objects.filter(pk=inner.pk).update(deadline_s=60)
    stub.script(calls(("outer", {})), says("done"))
    worker.send_message(alice, "Go", make_agent(tools=[outer, inner], provider=stub_provider))
    assert deadlines[1] == deadlines[0]


def test_what_a_call_has_left_is_the_least_of_its_limits(alice):
    context = ToolContext(user_id=alice.pk, deadline=timezone.now() + timedelta(seconds=60))
    assert 30 < context.seconds_left(90) <= 60 and context.seconds_left(1) == 1


@pytest.mark.parametrize("through", ["tool", "delegate"])
def test_a_grant_s_limit_shortens_the_agent_it_calls(worker, alice, make_agent, stub_provider, stub, took, through):
    make_agent("helper", provider=stub_provider, capabilities=["resting"])
    boss = make_agent("boss", provider=stub_provider)
    if through == "delegate":
        Tool.objects.create(name="delegate", kind="builtin", source={"builtin": "delegate"}, effect="idempotent")
    name = "helper" if through == "tool" else "delegate"
    ToolGrant.objects.create(agent=boss, tool=Tool.objects.get(name=name), deadline_s=1)
    boss.publish(author=alice)
    asked = {"task": "rest"} if through == "tool" else {"capability": "resting", "task": "rest"}
    stub.script(calls((name, asked)), says("too late", silent_s=300), says("It took too long."))
    run = worker.send_message(alice, "Rest", Agent.objects.get(pk=boss.pk))
    child = run.children.get()
    assert (child.status, child.error["code"]) == ("expired", "deadline") and took() < SOON_S
    assert (run.status, run.tool_calls.get().error["code"]) == ("succeeded", "child_expired")


def test_without_a_grant_s_limit_the_agent_has_its_own(worker, alice, make_agent, stub_provider, stub):
    """The time limit in the catalogue's row is that of one call, not of the child's run."""
    make_agent("helper", provider=stub_provider, timeout=500)
    Tool.objects.filter(name="helper").update(deadline_s=30)
    boss = make_agent("boss", tools=[Tool.objects.get(name="helper")], provider=stub_provider, timeout=900)
    stub.script(calls(("helper", {"task": "rest"})), says("rested"), says("done"))
    child = worker.send_message(alice, "Rest", boss).children.get()
    assert child.deadline - child.created_at > timedelta(seconds=400)
