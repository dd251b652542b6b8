"""A run whose workers keep vanishing is worked on alone, so that it does not take others along."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.utils import timezone

from runs.intake import messages as intake
from runs.lifecycle import claims, endings
from runs.models import Run
from runs.worker import recovery, runner
from tests.fakes import says
from tests.live import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def suspect(alice, make_agent, stub_provider, stub, monkeypatch):
    """Three workers vanished with it, and it waits for its turn: another suspect is at work."""
    stub.script(says("done"))
    make_agent("librarian", provider=stub_provider)
    monkeypatch.setattr(intake.queue, "enqueue", lambda run_id: True)
    run = intake.accept_message(user=alice, agent="librarian", text="go").run
    Run.objects.filter(pk=run.pk).update(crashes=Run.SUSPECT)
    return run


def test_one_tick_finds_all_runs_of_a_worker_that_died_however_many(alice, make_agent, monkeypatch):
    monkeypatch.setattr(recovery, "BATCH", 2)
    agent = make_agent("librarian")
    runs = [intake.accept_message(user=alice, agent=agent, text="go").run for _ in range(5)]
    for run in runs:
        assert claims.claim(str(run.pk))
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert recovery.tick()["reclaimed"] == 5
    assert not Run.objects.filter(place=None).exists()


@pytest.fixture
def work(suspect):
    def execute():
        try:
            runner.execute(str(suspect.pk))
        finally:
            connections.close_all()

    runner.SUSPECTS.acquire()
    thread = threading.Thread(target=execute)
    thread.start()
    yield thread
    thread.join(60)


def is_held(run):
    return Run.objects.get(pk=run.pk).status == "running"


def vanish(run):
    """Its worker does no more; the lease runs out."""
    Run.objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))


def test_who_waits_for_its_turn_is_not_blamed_if_the_worker_vanishes_meanwhile(suspect, work):
    try:
        wait_for(lambda: is_held(suspect))
        vanish(suspect)
        again = claims.take(suspect.pk, "another")
        assert again.crashes == Run.SUSPECT
        vanish(suspect)
    finally:
        runner.SUSPECTS.release()
    work.join(60)
    runner.execute(str(suspect.pk))
    work.join(60)
    suspect.refresh_from_db()
    assert suspect.status == "succeeded"
    assert not runner.SUSPECTS.locked()


def test_whose_workers_vanish_though_they_had_it_alone_fails(suspect, monkeypatch):
    def vanishes(conversation):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Conversation, "hold", vanishes)
    for _ in range(Run.TO_BLAME - Run.SUSPECT):
        with pytest.raises(KeyboardInterrupt):
            runner.execute(str(suspect.pk))
        assert not runner.SUSPECTS.locked()
        vanish(suspect)
    runner.execute(str(suspect.pk))
    suspect.refresh_from_db()
    assert (suspect.status, suspect.error["code"]) == ("failed", "worker_lost")


def test_who_waits_for_its_turn_can_be_cancelled(suspect, work, alice):
    try:
        wait_for(lambda: is_held(suspect))
        endings.cancel(Run.objects.get(pk=suspect.pk), by=alice, reason="enough")
        work.join(60)
    finally:
        runner.SUSPECTS.release()
    suspect.refresh_from_db()
    assert (suspect.status, suspect.error["message"]) == ("cancelled", "enough")


OF_RECOVERY = ("run_wake", "run_lease", "run_deadline", "run_without_place", "run_follower", "approval_open")


def plans_of(work):
    """How the database finds the rows of each statement about runs."""
    asked = []

    def remember(execute, statement, values, many, context):
        if "runs_run" in statement and statement.startswith("SELECT"):
            asked.append((statement, values))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(remember):
        work()
    explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
    with connection.cursor() as cursor:
        if connection.vendor != "sqlite":
            cursor.execute("SET enable_seqscan = off")  # a table of a test is small
        for statement, values in asked:
            cursor.execute(explain + statement, values)
            yield [str(row[-1]).strip() for row in cursor.fetchall()]
        if connection.vendor != "sqlite":
            cursor.execute("RESET enable_seqscan")


def test_a_tick_reads_no_more_of_many_runs_than_what_is_due(alice, make_agent):
    """A backlog whose agent is at its limit, and the runs of a year, are not read every few seconds."""
    agent = make_agent()
    common = {"principal": alice, "agent": agent}
    Run.objects.bulk_create(Run(**common, status="queued", place=number) for number in range(200))
    Run.objects.bulk_create(Run(**common, status="succeeded", finished_at=timezone.now()) for _ in range(200))
    plans = list(plans_of(recovery.tick))
    of_live = ("run_live",) if connection.vendor != "sqlite" else ()  # PostgreSQL chooses by what the table holds
    assert len(plans) >= 7
    for plan in plans:
        first = next(line for line in plan if "runs_" in line and ("SCAN" in line.upper() or "SEARCH" in line))
        assert any(f" {name} " in f"{first} " for name in (*OF_RECOVERY, *of_live, "hold_active", "runs_hold")), plan
