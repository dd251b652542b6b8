"""A run during which a process died is taken by processes without a port alone, and by them at once."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from agents.models import Agent
from runs.intake import messages as intake
from runs.models import Run, StepRun
from runs.queue import choice, claims
from runs.queue.choice import Takes
from runs.worker import recovery
from runs.worker.pickup import Work
from runs.worker.process import TAKES

pytestmark = pytest.mark.django_db
PAST = timedelta(seconds=-1)


@pytest.fixture
def agent(make_agent, stub_provider):
    return make_agent(provider=stub_provider)


@pytest.fixture
def queue_run(alice, agent):
    def queue():
        run = intake.message_run(user=alice, agent=agent, trigger="message")
        intake.open_sessions([(run, "hello", None)])
        return run

    return queue


@pytest.fixture
def lost(queue_run):
    """Its process died: the lease has run out."""
    run = queue_run()
    assert claims.claim(str(run.pk))
    Run.objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() + PAST)
    assert recovery.line_up_lost() == 1
    return run


def taken(takes):
    run = claims.claim_next("default", takes=takes)
    return run and run.pk


def test_what_each_role_takes():
    assert TAKES == {"web": Takes.UNSUSPECTED, "worker": Takes.ALL, "rescue": Takes.SUSPECTS}


@pytest.mark.parametrize("takes", [Takes.SUSPECTS, Takes.ALL])
def test_a_lost_run_is_left_by_a_process_with_a_port_and_taken_by_one_without(lost, queue_run, takes):
    sound = queue_run()
    assert choice.has_suspects(["default"])
    assert taken(Takes.UNSUSPECTED) == sound.pk
    assert taken(Takes.UNSUSPECTED) is None
    assert taken(takes) == lost.pk
    assert Run.objects.get(pk=lost.pk).crashes == 1 and not choice.has_suspects(["default"])


def test_a_rescue_takes_nothing_else(queue_run):
    queue_run()
    assert taken(Takes.SUSPECTS) is None and not choice.has_suspects(["default"])


def test_a_suspect_stays_one_until_it_has_survived(lost):
    Run.objects.filter(pk=lost.pk).update(crashes=1)
    assert claims.claim_next("default", takes=Takes.SUSPECTS)
    Run.objects.filter(pk=lost.pk).update(lease_expires_at=timezone.now() + PAST, crashes=0)  # it completed a turn
    recovery.line_up_lost()
    assert taken(Takes.UNSUSPECTED) is None, "it died again since"
    assert taken(Takes.SUSPECTS) == lost.pk


@pytest.mark.parametrize("takes", [Takes.UNSUSPECTED, Takes.SUSPECTS])
def test_limits_hold_the_same_runs_back(lost, queue_run, alice, make_agent, stub_provider, agent, takes):
    """A limit leads to another choice, among the runs of agents that have room. A lost run counts as in work."""
    Agent.objects.filter(pk=agent.pk).update(max_running=1)
    assert claims.claim(str(queue_run().pk))
    queue_run()
    assert taken(takes) is None
    Agent.objects.filter(pk=agent.pk).update(max_running=2 if takes is Takes.SUSPECTS else 3)
    expected = lost.pk if takes is Takes.SUSPECTS else Run.objects.filter(status="queued").get().pk
    assert taken(takes) == expected


def test_a_chain_whose_step_died_is_suspected_with_its_steps(queue_run):
    run = queue_run()
    step = StepRun.objects.create(
        run=run, key="a", status="running", lease_owner="dead:1", lease_expires_at=timezone.now() + PAST,
        place=1, slots=1,
    )  # fmt: skip
    assert choice.take_step("default", Takes.UNSUSPECTED) is None and choice.has_suspects(["default"])
    assert UUID(choice.take_step("default", Takes.SUSPECTS)) == step.pk


def test_a_step_that_nobody_lost_is_everybodys(queue_run):
    for owner, at in (("", timezone.now() + PAST), ("alive:1", timezone.now() - PAST)):
        StepRun.objects.all().delete()
        step = StepRun.objects.create(
            run=queue_run(), key="a", status="running", lease_owner=owner, lease_expires_at=at, place=1, slots=1
        )
        assert choice.take_step("default", Takes.SUSPECTS) is None
        assert UUID(choice.take_step("default", Takes.UNSUSPECTED)) == step.pk


def test_work_passes_on_what_its_process_takes(lost):
    assert not Work(Takes.UNSUSPECTED).do("default", lambda: None)
    assert Work(Takes.SUSPECTS).do("default", lambda: None)
    assert Run.objects.get(pk=lost.pk).attempt == 2
