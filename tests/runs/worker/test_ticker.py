"""Of all workers one does the recurring work; when it dies or stops another takes over."""

import threading

import pytest

from plumbing import clock
from runs.models import Duty
from runs.queue import job_leases
from runs.worker import ticker
from runs.worker.ticker import RARELY, TICKS, Job, Ticker
from tests.live import wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def done(monkeypatch):
    """What was done, instead of the real jobs; at once and on the test's own connection."""
    done = []
    monkeypatch.setattr(ticker, "OFTEN", (Job("often", 1, lambda: done.append("often")),))
    monkeypatch.setattr(ticker, "RARELY", (Job("rare", 3600, lambda: done.append("rare")),))
    monkeypatch.setattr(ticker, "attempt", lambda work, *arguments: work(*arguments))
    monkeypatch.setattr(Ticker, "do", lambda self, name, work: work())
    return done


def expire(name):
    Duty.objects.filter(name=name).update(lease_expires_at=clock.Now(-0.01))


def make_due(name):
    Duty.objects.filter(name=name).update(next_at=clock.Now(-0.01))


def forget(one):
    """A turn in which everything would be due."""
    one.next, one.renew_at = {}, 0.0
    return one.turn()


def test_one_of_two_workers_ticks(done):
    first, second = Ticker("first"), Ticker("second")
    assert first.turn() == ticker.PERIOD_S
    assert second.turn() > ticker.PERIOD_S and done == ["often"]
    assert forget(second) > ticker.PERIOD_S and forget(first) == ticker.PERIOD_S
    assert done == ["often", "often"] and job_leases.holder(TICKS) == "first"


def test_a_job_waits_for_its_period(done):
    one = Ticker("one")
    one.turn(), one.turn()
    assert done == ["often"]


def test_a_dead_ticker_is_replaced_and_steps_down_when_it_comes_back(done):
    dead, other = Ticker("dead"), Ticker("other")
    dead.turn()
    expire(TICKS)
    assert forget(other) == ticker.PERIOD_S and job_leases.holder(TICKS) == "other"
    assert forget(dead) > ticker.PERIOD_S and done == ["often", "often"]


def test_a_ticker_that_was_stopped_past_its_lease_goes_on_if_nobody_took_it(done):
    one = Ticker("one")
    one.turn()
    expire(TICKS)
    assert forget(one) == ticker.PERIOD_S


def test_a_worker_that_stops_hands_over_at_once(done):
    first, second = Ticker("first"), Ticker("second")
    first.turn()
    job_leases.release_duty(TICKS, "second")  # not the one that has it
    assert job_leases.holder(TICKS) == "first"
    job_leases.release_duty(TICKS, "first")
    assert second.turn() == ticker.PERIOD_S


def test_rare_work_is_done_when_its_row_says_so_and_by_one_worker(done):
    first, second = Ticker("first"), Ticker("second")
    first.turn()
    assert "rare" not in done  # first due after one period
    make_due("rare")
    assert job_leases.take_duty("rare", "another", 60)
    forget(first)
    assert "rare" not in done
    expire("rare")
    forget(first), forget(second), forget(first)
    assert done.count("rare") == 1
    row = Duty.objects.get(name="rare")
    assert row.owner == "" and row.done_at is not None and (row.next_at - row.done_at).total_seconds() == 3600


def test_rare_work_that_fails_is_due_again_after_its_period(done):
    def fails():
        raise ValueError("no")

    one = Ticker("one")
    one.turn()
    make_due("rare")
    assert job_leases.take_duty("rare", "one", 60)
    with pytest.raises(ValueError, match="no"):
        one.do_rare(Job("rare", 60, fails))
    assert not job_leases.find_unowned_duties().filter(name="rare").exists()


def test_a_job_that_is_still_at_work_is_not_begun_again():
    one, go, begun = Ticker("one"), threading.Event(), []

    def work():
        begun.append(1)
        go.wait(60)

    one.do("slow", work), one.do("slow", work)
    go.set()
    one.at_work["slow"].result(60)
    one.do("slow", work)
    one.at_work["slow"].result(60)
    assert len(begun) == 2


def test_every_recurring_job_has_a_name_of_its_own():
    names = [job.name for job in (*ticker.OFTEN, *RARELY)]
    assert len(set(names)) == len(names) and TICKS not in names


@pytest.mark.django_db(transaction=True)
def test_it_ticks_on_its_own_thread_and_gives_the_duty_up(monkeypatch):
    ticked = threading.Event()
    monkeypatch.setattr(ticker, "OFTEN", (Job("often", 1, ticked.set),))
    one = Ticker("one")
    one.start()
    assert ticked.wait(60) and job_leases.holder(TICKS) == "one"
    one.stop()
    wait_for(lambda: job_leases.holder(TICKS) is None)


@pytest.mark.django_db
def test_rows_that_vanished_in_a_failover_are_made_again():
    mine = ticker.Ticker("me")
    assert mine.lead()
    Duty.objects.all().delete()
    assert not mine.lead() and mine.lead()
    Duty.objects.exclude(name=ticker.TICKS).delete()
    mine.start_rare()
    assert {job.name for job in ticker.RARELY} < set(Duty.objects.values_list("name", flat=True))
