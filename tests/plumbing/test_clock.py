"""Leases are written and compared with the database's clock, whatever a process takes the time for."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from plumbing import clock
from registry.exceptions import ModelFailed
from registry.llm.watch import Watch
from runs.calls.call_records import waits_for_time
from runs.exceptions import RunEnded
from runs.intake import messages as intake
from runs.loop.conversation import check_alive
from runs.models import Run, ToolCallRecord
from runs.queue import claims, leases
from runs.queue.leases import KEEPER, Lease, hold_lease

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def run(alice, make_agent):
    return Run.objects.create(principal=alice, agent=make_agent())


def test_the_time_in_a_statement_is_the_time_that_is_read(run):
    before = clock.now()
    read = Run.objects.annotate(now=clock.Now(), later=clock.Now(90), earlier=clock.Now(-0.25)).get(pk=run.pk)
    after = clock.now()

    near = timedelta(milliseconds=1)  # SQLite writes milliseconds
    assert before - near <= read.now <= after + near
    assert abs(read.later - read.now - timedelta(seconds=90)) <= near
    assert abs(read.now - read.earlier - timedelta(seconds=0.25)) <= near
    assert read.now.tzinfo is not None and abs(read.now - datetime.now(UTC)) < MINUTE


def test_a_time_that_was_written_in_a_statement_is_found_again(run):
    """SQLite compares texts: milliseconds as Django writes them, and whole seconds without a fraction."""
    for _ in range(5):
        Run.objects.update(lease_expires_at=clock.Now(30))
        assert Run.objects.filter(lease_expires_at=Run.objects.get().lease_expires_at).exists()


@pytest.mark.parametrize("error", [MINUTE, -MINUTE])
def test_a_worker_whose_clock_is_off_takes_no_run_of_another_and_writes_no_other_lease(run, time_machine, error):
    true = timezone.now()
    time_machine.move_to(true + error)
    first = claims.take_run(run.pk, "first")
    assert first is not None and abs(first.lease_expires_at - true - timedelta(seconds=30)) < timedelta(seconds=10)

    time_machine.move_to(true - error)
    assert claims.take_run(run.pk, "second") is None

    Run.objects.update(lease_expires_at=true - timedelta(milliseconds=20))
    assert claims.take_run(run.pk, "second") is not None


def test_a_renewal_lasts_from_the_time_of_the_database(run, time_machine, monkeypatch):
    monkeypatch.setattr(leases, "close_old_connections", lambda: None)  # the test is a transaction
    held = claims.claim_run(str(run.pk))
    Run.objects.update(lease_expires_at=None)
    true = timezone.now()
    time_machine.move_to(true + MINUTE)
    with hold_lease(Lease(held)):
        KEEPER.renew()

    renewed = Run.objects.get().lease_expires_at
    assert abs(renewed - true - timedelta(seconds=30)) < timedelta(seconds=10)


@pytest.fixture
def fast_clock(monkeypatch):
    """This machine's clock is a minute ahead of the database's, which was read just now."""
    monkeypatch.setattr(clock.Reading, "last", (datetime.now(UTC) - MINUTE, clock.read_steady_seconds()))


def test_a_deadline_is_compared_with_the_clock_that_all_hosts_share(run, fast_clock, django_assert_num_queries):
    run.deadline = datetime.now(UTC) - MINUTE / 2  # by the database half a minute is left
    with django_assert_num_queries(0):
        check_alive(run, Lease(run))
        Watch(deadline=run.deadline).check()
    run.deadline -= MINUTE
    with pytest.raises(RunEnded, match="deadline passed"):
        check_alive(run, Lease(run))
    with pytest.raises(ModelFailed):
        Watch(deadline=run.deadline).check()


def test_what_a_call_has_left_is_counted_on_this_machine_s_clock(fast_clock):
    moment = datetime.now(UTC) - MINUTE / 2
    assert abs(clock.local(moment) - moment - MINUTE) < timedelta(seconds=5)


def test_a_wait_of_a_call_ends_by_the_shared_clock(fast_clock):
    until = (datetime.now(UTC) - MINUTE / 2).isoformat()
    assert waits_for_time(ToolCallRecord(waiting_for="timer", details={"until": until}))
    assert not waits_for_time(ToolCallRecord(waiting_for="timer", details={"until": "2026-01-01T00:00:00Z"}))


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has the clock of this machine")
def test_a_process_reads_the_time_of_the_database_with_a_connection(monkeypatch):
    """So that a web server that only takes messages writes the same times as a worker."""
    monkeypatch.setattr(clock.Reading, "last", None)
    other = connection.copy()
    try:
        other.connect()
        first = clock.Reading.last
        assert abs(clock.near() - clock.now()) < timedelta(seconds=20)
        other.close()
        other.connect()
        assert clock.Reading.last is first  # not each time
        monkeypatch.setattr(clock.Reading, "last", (first[0], first[1] - clock.OLD_S - 1))
        other.close()
        other.connect()
        assert clock.Reading.last[1] >= first[1]
    finally:
        other.close()


def test_a_message_is_stored_with_the_time_that_workers_compare(alice, make_agent, fast_clock):
    agent = make_agent()
    agent.publish(author=alice)
    run = intake.accept_message(user=alice, text="hello", agent=agent).run
    of_database = datetime.now(UTC) - MINUTE
    for moment in (run.created_at, run.queued_at, run.deadline - timedelta(seconds=run.version.read_spec().timeout_s)):
        assert abs(moment - of_database) < timedelta(seconds=20)
