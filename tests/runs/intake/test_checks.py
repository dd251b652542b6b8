"""Whoever starts something, the same rules say whether it may be started."""

from types import SimpleNamespace

import pytest

from agents.exceptions import Conflict, Invalid
from agents.models import Agent, Chain
from agents.tools import ToolFailed
from devices.models import Device
from devices.protocol import RunRequest
from runs.exceptions import BrokenInput, NotPublished, ProviderDisabled
from runs.intake import checks, children
from runs.intake import messages as intake
from runs.models import Run, ToolCallRecord, Trigger, TriggerFiring
from runs.schedules import device_runs, triggers

pytestmark = pytest.mark.django_db


def send(agent, user):
    intake.accept_message(user=user, agent=agent.name, text="Hello")


def prepare(agent, user):
    intake.accept_message(user=user, agent=agent.name, text="Hello", trigger=Run.Trigger.EXTERNAL)


def call_as_tool(agent, user):
    parent = Run.objects.create(principal=user)
    try:
        children.spawn(parent, agent, text="Hello", call=ToolCallRecord(run=parent))
    except ToolFailed as error:
        raise Conflict(str(error), code=error.code)


def ask_from_a_device(agent, user):
    device = Device.objects.create(owner=user, name="laptop")
    device_runs.start_for_device(device.pk, RunRequest(agent=agent.name, input="Hello"))


def fire_a_trigger(agent, user):
    trigger = Trigger.objects.create(owner=user, name="now", kind=Trigger.Kind.RUN_ENDED, agent=agent, text="Hello")
    firing = triggers.start_firing(TriggerFiring.objects.create(trigger=trigger, event={}))
    raise Conflict(firing.reason, code=firing.reason.partition(":")[0])


WAYS = [send, prepare, call_as_tool, ask_from_a_device, fire_a_trigger]


@pytest.mark.parametrize("start", WAYS)
def test_an_agent_that_is_switched_off_is_started_by_nobody(start, alice, make_agent):
    agent = make_agent("helper")
    Agent.objects.filter(pk=agent.pk).update(enabled=False)
    with pytest.raises(Conflict) as refused:
        start(Agent.objects.get(pk=agent.pk), alice)
    assert refused.value.code == "not_published" and "switched off" in str(refused.value)


@pytest.mark.parametrize("start", WAYS)
def test_an_agent_whose_provider_is_switched_off_is_started_by_nobody(start, alice, make_agent):
    agent = make_agent("helper")
    type(agent.provider).objects.update(enabled=False)
    with pytest.raises((Conflict, ProviderDisabled)) as refused:
        start(Agent.objects.get(pk=agent.pk), alice)
    assert refused.value.code == "provider_disabled"


def test_a_version_that_does_not_exist_is_refused(make_agent):
    agent = make_agent("helper")
    assert checks.version_of_agent(agent, 1) == agent.published
    with pytest.raises(Invalid, match="no version 7"):
        checks.version_of_agent(agent, 7)


def test_a_chain_that_was_never_published_is_refused(alice):
    with pytest.raises(NotPublished, match="Chain “night”"):
        checks.version_of_chain(Chain.objects.create(owner=alice, name="night"))


def test_a_child_ends_before_its_parent_does(alice, settings):
    settings.MAX_RUN_S = 600
    parent = Run(principal=alice, deadline=checks.deadline(None, 5))
    assert checks.deadline(None, 60, parent=parent) == parent.deadline
    spec = SimpleNamespace(timeout_s=30)
    assert parent.deadline < checks.deadline(spec, 60) < checks.deadline(None)


def test_broken_input_names_the_place_and_where_the_schema_is(alice, make_agent):
    agent = make_agent("helper", input_schema={"type": "object", "required": ["box"]})
    with pytest.raises(BrokenInput) as refused:
        intake.accept_message(user=alice, agent=agent, text="Hello", input={})
    assert refused.value.hint == "GET /api/v1/agents/helper shows input_schema."
    assert refused.value.details[0]["code"] == "schema"
