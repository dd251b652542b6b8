"""The thread that renews leases."""

import threading

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from runs.intake import messages as intake
from runs.models import Run, StepRun
from runs.queue import leases
from runs.queue.locks import lock_run


class Ended(BaseException):
    """Ends the endless loop."""


@pytest.mark.parametrize("error", [OperationalError, RuntimeError, ValueError, MemoryError, OSError])
def test_no_error_ends_the_renewal_of_leases(error, monkeypatch):
    keeper, pauses, renewals = leases.Keeper(), [], []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) > 3:
            raise Ended

    def renew():
        renewals.append(1)
        raise error("boom")

    monkeypatch.setattr(leases.time, "sleep", sleep)
    monkeypatch.setattr(keeper, "renew", renew)
    with pytest.raises(Ended):
        keeper.renew_for_ever()
    assert len(renewals) == 3 and pauses[0] == settings.LEASE_S / 3


locks_rows = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite locks the whole file")


@pytest.fixture
def keeper(monkeypatch):
    """One that renews only when it is told to, and hardly pauses."""
    keeper = leases.Keeper()
    monkeypatch.setattr(keeper, "start", lambda: None)
    monkeypatch.setattr(leases, "AGAIN_S", (0.01, 0.01))
    return keeper


def hold_run(keeper, person, agent):
    run = Run.objects.create(
        principal=person, agent=agent, status="running", attempt=1, lease_owner=leases.worker_name()
    )
    keeper.add(leases.Lease(run))
    return run


def renew_elsewhere(keeper):
    """Whether the renewal came to its end while this thread's transaction is open."""

    def renew():
        try:
            keeper.renew()
        finally:
            connection.close()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    thread.join(60)
    return not thread.is_alive()


@locks_rows
@pytest.mark.django_db(transaction=True)
def test_a_run_whose_row_somebody_holds_does_not_cost_the_others_their_leases(alice, make_agent, keeper):
    agent = make_agent()
    written, other = hold_run(keeper, alice, agent), hold_run(keeper, alice, agent)
    with transaction.atomic():
        lock_run(written.pk)
        assert renew_elsewhere(keeper)
        assert Run.objects.get(pk=other.pk).lease_expires_at
        assert Run.objects.get(pk=written.pk).lease_expires_at is None
    assert not any(lease.lost.is_set() for lease in keeper.held())


@locks_rows
@pytest.mark.django_db(transaction=True)
def test_a_lease_whose_row_is_free_again_is_renewed_in_the_same_turn(alice, make_agent, keeper, monkeypatch):
    run, locked, done = hold_run(keeper, alice, make_agent()), threading.Event(), threading.Event()
    prolong = leases.prolong

    def write():
        try:
            with transaction.atomic():
                lock_run(run.pk)
                locked.set()
                done.wait(60)
        finally:
            connection.close()

    def prolong_and_free(rows):
        keys = prolong(rows)
        done.set()
        writer.join(60)
        return keys

    monkeypatch.setattr(leases, "prolong", prolong_and_free)
    writer = threading.Thread(target=write)
    writer.start()
    assert locked.wait(60)
    keeper.renew()
    assert done.is_set() and Run.objects.get(pk=run.pk).lease_expires_at


@locks_rows
@pytest.mark.django_db(transaction=True)
def test_the_renewal_waits_for_no_item_that_is_being_written(alice, make_chain, functions, keeper):
    """The worker of the items may be writing the next one that the renewal holds."""
    run = intake.start_chain(user=alice, chain=make_chain({"key": "a", "tool": "one"}), input={})
    fields = {"run": run, "key": "a", "status": "running", "attempt": 1, "lease_owner": "slot"}
    written, other = (StepRun.objects.create(item=item, **fields) for item in range(2))
    keeper.add(leases.StepLease(run, [written.pk, other.pk], owner="slot"))
    with transaction.atomic():
        StepRun.objects.filter(pk=written.pk).update(done=0)
        assert renew_elsewhere(keeper)
    assert StepRun.objects.get(pk=other.pk).lease_expires_at


@pytest.mark.django_db(transaction=True)
def test_a_lost_lease_is_noticed_while_the_others_are_renewed(alice, make_agent, keeper):
    mine, lost = hold_run(keeper, alice, make_agent()), hold_run(keeper, alice, make_agent("other"))
    Run.objects.filter(pk=lost.pk).update(lease_owner="elsewhere:1", attempt=2)
    keeper.renew()
    assert {lease.run_id for lease in keeper.held() if lease.lost.is_set()} == {str(lost.pk)}
    assert Run.objects.get(pk=mine.pk).lease_expires_at
    assert Run.objects.get(pk=lost.pk).lease_expires_at is None
