"""Time in the queue does not count against the time in which a run has to be done."""

from datetime import timedelta

import pytest
from django.utils import timezone

from runs.intake import messages as intake
from runs.models import Run, Session
from runs.queue import claims
from runs.worker import recovery, runner

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


def stand_in_queue(run, waited, *, limit=5 * MINUTE):
    """As if it had been accepted so long ago."""
    accepted = timezone.now() - waited
    Run.objects.filter(pk=run.pk).update(created_at=accepted, queued_at=accepted, deadline=accepted + limit)


def deadline_in(run):
    run.refresh_from_db()
    return run.deadline - timezone.now()


def test_a_run_that_no_worker_took_for_an_hour_is_made_in_its_full_time(alice, make_agent):
    run = intake.accept_message(user=alice, agent=make_agent("librarian"), text="go").run
    stand_in_queue(run, timedelta(hours=1))
    recovery.tick_recovery()
    run.refresh_from_db()
    assert run.status == "queued"
    runner.execute_run(str(run.pk))
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert run.deadline - run.started_at > 4 * MINUTE


def test_a_run_that_is_taken_at_once_keeps_its_deadline(alice, make_agent):
    run = intake.accept_message(user=alice, agent=make_agent("librarian"), text="go").run
    before = run.deadline
    claimed = claims.claim_run(str(run.pk))
    run.refresh_from_db()
    assert claimed.deadline == run.deadline == before


def test_a_message_behind_a_long_run_has_its_full_time(alice, make_agent):
    agent = make_agent("librarian")
    session = Session.objects.create(owner=alice, agent=agent)
    first = intake.accept_message(user=alice, agent=agent, text="one", session=session).run
    second = intake.accept_message(user=alice, agent=agent, text="two", session=session, on_busy="enqueue").run
    assert second.after_id == first.pk
    stand_in_queue(second, timedelta(hours=1))
    recovery.tick_recovery()
    runner.execute_run(str(first.pk))
    assert 4 * MINUTE < deadline_in(second) <= 5 * MINUTE + SECOND
    runner.execute_run(str(second.pk))
    second.refresh_from_db()
    assert second.status == "succeeded"


def test_a_parent_lives_while_its_child_stands_in_the_queue_and_as_long_as_the_child(alice, make_agent):
    agent = make_agent("librarian")
    parent = Run.objects.create(
        principal=alice, agent=agent, status="waiting", waiting_for="child", attempt=1, deadline=timezone.now() - SECOND
    )
    child = Run.objects.create(principal=alice, agent=agent, parent=parent, root=parent, place=0)
    stand_in_queue(child, 10 * MINUTE)
    recovery.expire_runs(timezone.now())
    parent.refresh_from_db()
    assert parent.status == "waiting"
    claims.claim_run(str(child.pk))
    assert deadline_in(child) > 4 * MINUTE
    assert deadline_in(parent) >= deadline_in(child) - SECOND
    Run.objects.update(deadline=timezone.now() - SECOND)
    recovery.expire_runs(timezone.now())
    parent.refresh_from_db()
    assert parent.status == "expired"


def test_a_run_that_nobody_takes_for_a_day_is_expired(alice, make_agent):
    run = intake.accept_message(user=alice, agent=make_agent("librarian"), text="go").run
    stand_in_queue(run, timedelta(days=1, hours=1))
    recovery.tick_recovery()
    run.refresh_from_db()
    assert (run.status, run.error["code"]) == ("expired", "deadline")
