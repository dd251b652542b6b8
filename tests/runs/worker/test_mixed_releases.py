"""An older worker has work whose next step only a newer release understands: a child run, a schedule, a trigger."""

from datetime import timedelta

import pytest

from agents.models import AgentVersion, ChainVersion, Tool
from agents.spec import FORMAT
from plumbing import clock
from runs.intake import messages as intake
from runs.models import Run, StepRun, ToolCallRecord, Trigger, TriggerFiring
from runs.schedules import triggers
from runs.worker import recovery
from tests.fakes import calls, says
from tests.schedules import START, table

pytestmark = pytest.mark.django_db
NEWER = FORMAT + 1


@pytest.fixture
def helper(make_agent, stub_provider):
    return make_agent("helper", provider=stub_provider, capabilities=["counting"])


@pytest.fixture
def ask_helper(helper, make_tool):
    return make_tool("ask-helper", kind="agent", source={"agent": helper.pk}, input_schema={"type": "object"})


@pytest.fixture
def delegate(alice):
    return Tool.objects.create(name="delegate", kind="builtin", source={"builtin": "delegate"}, effect="idempotent")


def publish_newer(definition):
    """As if a newer release had published it."""
    kind = ChainVersion if hasattr(definition, "steps") else AgentVersion
    kind.objects.filter(pk=definition.published_id).update(format=NEWER)


def become_newer(worker):
    """Instead of the older worker there is one that reads it."""
    for kind in (AgentVersion, ChainVersion):
        kind.objects.filter(format=NEWER).update(format=FORMAT)
    Run.objects.update(needs=FORMAT)
    worker.ring("default")
    worker.work()


def assert_left(run):
    run.refresh_from_db()
    assert (run.status, run.needs, run.lease_owner) == ("queued", NEWER, "") and run.place is not None
    assert not Run.objects.filter(parent=run).exists()


def assert_done_once(run):
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    assert Run.objects.get(parent=run).status == "succeeded"
    assert list(run.events.values_list("seq", flat=True)) == list(range(1, run.last_event + 1))


@pytest.mark.parametrize("tool", ["ask-helper", "delegate"])
def test_a_call_of_a_newer_agent_is_left_to_a_newer_worker(
    tool, worker, alice, helper, ask_helper, delegate, make_agent, stub_provider, stub
):
    granted = ask_helper if tool == "ask-helper" else delegate
    boss = make_agent("boss", tools=[granted], provider=stub_provider)
    publish_newer(helper)
    given = {"task": "count"} | ({"capability": "counting"} if tool == "delegate" else {})
    stub.script(calls((tool, given)), says("I counted 3"), says("The helper says 3"))
    run = worker.send_message(alice, "how many?", boss)
    assert_left(run)
    assert ToolCallRecord.objects.get(run=run).outcome == ""
    become_newer(worker)
    assert_done_once(run)
    assert (ToolCallRecord.objects.get(run=run).outcome, len(stub.requests)) == ("ok", 3)


@pytest.mark.parametrize("step", [{"agent": "helper"}, {"agent": "helper", "for_each": "input.words"}])
def test_a_step_with_a_newer_agent_is_left_to_a_newer_worker(step, worker, alice, helper, make_chain, stub):
    chain = make_chain({"key": "one", "input": {"message": {"value": "count"}}, **step})
    publish_newer(helper)
    with worker.capture(execute=True):
        run = intake.start_chain(user=alice, chain=chain, input={"words": ["a"]})
    worker.work()
    assert_left(run)
    stub.script(says("3"))
    become_newer(worker)
    assert_done_once(run)


def test_a_step_that_calls_a_newer_agent_is_found_again_by_a_newer_worker(
    worker, alice, helper, ask_helper, make_chain, stub, functions
):
    """Several steps are calls of workers of their own, which leave their row until its lease ends."""
    given = {"input": {"task": {"value": "count"}}}
    chain = make_chain({"key": "one", "tool": "ask-helper", **given}, {"key": "two", "tool": "add", "input": {}})
    publish_newer(helper)
    with worker.capture(execute=True):
        run = intake.start_chain(user=alice, chain=chain, input={})
    worker.work()
    run.refresh_from_db()
    assert run.status in Run.LIVE and run.needs == NEWER and not Run.objects.filter(parent=run).exists()
    stub.script(says("3"))
    StepRun.objects.filter(lease_expires_at__isnull=False).update(lease_expires_at=clock.near() - timedelta(seconds=1))
    Run.objects.filter(wake_at__isnull=False).update(wake_at=clock.near() - timedelta(seconds=1))
    become_newer(worker)
    with worker.capture(execute=True):
        recovery.tick_recovery()
    worker.work()
    assert_done_once(run)


def test_a_schedule_of_a_newer_chain_stays_due(make_schedule, tick, make_chain, worker, functions):
    chain = make_chain({"key": "one", "tool": "add", "input": {"a": {"value": 1}, "b": {"value": 2}}})
    schedule = make_schedule(chain=chain, agent=None)
    publish_newer(chain)
    tick(START)
    tick(START + timedelta(seconds=5))
    assert [outcome for _, outcome in table(schedule)] == ["due"]
    ChainVersion.objects.update(format=FORMAT)
    tick(START + timedelta(seconds=9))
    tick(START + timedelta(seconds=10))
    assert [outcome for _, outcome in table(schedule)] == ["succeeded"]


def test_a_firing_for_a_newer_agent_stays_pending(alice, helper, worker, stub):
    trigger = Trigger.objects.create(owner=alice, name="orders", kind="webhook", agent=helper, text="An order came")
    publish_newer(helper)
    firing = TriggerFiring.objects.create(trigger=trigger, key="1", event={})
    with worker.capture(execute=True):
        triggers.tick_triggers()
    firing.refresh_from_db()
    assert (firing.outcome, Run.objects.count()) == ("pending", 0)
    AgentVersion.objects.update(format=FORMAT)
    with worker.capture(execute=True):
        triggers.tick_triggers()
    firing.refresh_from_db()
    assert (firing.outcome, Run.objects.count()) == ("started", 1)
