"""Leases are written and compared with the database's clock, whatever a process takes the time for."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from plumbing import clock
from runs.lifecycle import claims, leases
from runs.lifecycle.leases import KEEPER, Lease, hold
from runs.models import Run

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
    first = claims.take(run.pk, "first")
    assert first is not None and abs(first.lease_expires_at - true - timedelta(seconds=30)) < timedelta(seconds=10)

    time_machine.move_to(true - error)
    assert claims.take(run.pk, "second") is None

    Run.objects.update(lease_expires_at=true - timedelta(milliseconds=20))
    assert claims.take(run.pk, "second") is not None


def test_a_renewal_lasts_from_the_time_of_the_database(run, time_machine, monkeypatch):
    monkeypatch.setattr(leases, "close_old_connections", lambda: None)  # the test is a transaction
    held = claims.claim(str(run.pk))
    Run.objects.update(lease_expires_at=None)
    true = timezone.now()
    time_machine.move_to(true + MINUTE)
    with hold(Lease(held)):
        KEEPER.renew()

    renewed = Run.objects.get().lease_expires_at
    assert abs(renewed - true - timedelta(seconds=30)) < timedelta(seconds=10)
