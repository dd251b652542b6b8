"""A run whose workers keep vanishing is worked on alone, so that it does not take others along."""

import json
import re
import threading
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.db.models import DateTimeField
from django.utils import timezone

from agents.models import Agent
from runs.intake import messages as intake
from runs.models import Run
from runs.queue import claims, endings, fair_queue
from runs.queue.leases import Lease
from runs.worker import deactivated, recovery, runner
from runs.worker.crash_quarantine import Turn as TurnOfSuspect
from runs.worker.run_pool import RunPool
from tests.fakes import Turn, says
from tests.live import wait_for
from tests.reading import count_rows, iterate_nodes

pytestmark = pytest.mark.django_db(transaction=True)
PAST = timezone.now() - timedelta(seconds=1)


@pytest.fixture
def suspect(alice, make_agent, stub_provider, stub, monkeypatch):
    """Three workers vanished with it, and it waits for its turn: another suspect is at work."""
    stub.script(says("done"))
    make_agent("librarian", provider=stub_provider)
    monkeypatch.setattr(intake.wakeups, "enqueue", lambda run_id: True)
    run = intake.accept_message(user=alice, agent="librarian", text="go").run
    Run.objects.filter(pk=run.pk).update(crashes=Run.SUSPECT)
    return run


def test_one_tick_finds_all_runs_of_a_worker_that_died_however_many(alice, make_agent, monkeypatch):
    monkeypatch.setattr(recovery, "BATCH", 2)
    monkeypatch.setattr(
        recovery, "LOST", recovery.Unplaced(recovery.query_lost_runs, now=DateTimeField())
    )  # compiled with that limit
    agent = make_agent("librarian")
    runs = [intake.accept_message(user=alice, agent=agent, text="go").run for _ in range(5)]
    for run in runs:
        assert claims.claim_run(str(run.pk))
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert recovery.tick_recovery()["reclaimed"] == 5
    assert not Run.objects.filter(place=None).exists()


@pytest.mark.parametrize(
    ("more", "status"), [({"cancel_requested_at": PAST}, "cancelled"), ({"deadline": PAST}, "expired")]
)
def test_a_run_whose_pool_has_lost_its_last_worker_can_be_stopped(alice, make_agent, more, status):
    run = intake.accept_message(user=alice, agent=make_agent("librarian"), text="go").run
    assert claims.claim_run(str(run.pk))
    Run.objects.update(lease_expires_at=PAST, **more)
    recovery.tick_recovery()
    run.refresh_from_db()
    assert (run.status, run.lease_owner, run.place) == (status, "", None)


def test_recovered_runs_stand_in_front_and_their_people_take_turns(alice, bob, make_agent):
    agent = make_agent("librarian")
    Agent.objects.update(owner=None)  # everybody's
    agent.refresh_from_db()
    people = {"a1": alice, "a2": alice, "a3": alice, "b1": bob, "b2": bob, "a4": alice, "b3": bob}
    runs = {}
    for name, person in people.items():
        runs[name] = intake.accept_message(user=person, agent=agent, text="go").run.pk
        if name not in ("a4", "b3"):
            assert claims.claim_run(str(runs[name]))
    Run.objects.filter(status="running").update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert recovery.line_up_lost() == 5
    order = list(fair_queue.order_queue(Run.objects).values_list("pk", flat=True))
    assert [name for pk in order for name in runs if runs[name] == pk] == ["a1", "b1", "a4", "a2", "b2", "b3", "a3"]


@pytest.fixture
def other(alice, make_agent, stub_provider):
    """The turn of another suspect."""
    run = intake.accept_message(user=alice, agent=make_agent("other", provider=stub_provider), text="go").run
    Run.objects.filter(pk=run.pk).update(crashes=Run.SUSPECT)
    run = claims.claim_run(str(run.pk))
    return TurnOfSuspect(run, Lease(run))


@pytest.fixture
def work(suspect, other):
    def execute():
        try:
            runner.execute_run(str(suspect.pk))
        finally:
            connections.close_all()

    assert runner.SUSPECTS.take(other)
    thread = threading.Thread(target=execute)
    thread.start()
    yield thread
    runner.SUSPECTS.leave(other)
    thread.join(60)


def deaths(*runs):
    """Workers that died with each, if this one dies now."""
    return [Run.objects.get(pk=run.pk).crashes for run in runs]


def test_a_suspect_that_waits_lets_another_work_and_is_not_blamed_meanwhile(suspect, work, other):
    other.blame(1)
    assert deaths(other.run, suspect) == [Run.SUSPECT + 1, Run.SUSPECT]
    seen = []
    with runner.SUSPECTS.rest(other):
        work.join(60)
        seen = deaths(other.run)
    assert not work.is_alive() and seen == [Run.SUSPECT]
    suspect.refresh_from_db()
    assert suspect.status == "succeeded"
    assert runner.SUSPECTS.turn is other and deaths(other.run) == [Run.SUSPECT + 1]


@pytest.fixture
def run_pool():
    made = RunPool(10)
    yield made
    made.stop()


def test_suspects_wait_for_their_models_at_the_same_time(alice, make_agent, stub_provider, stub, run_pool):
    """The turn goes round, and whose turn it is not is not blamed."""
    stub.script(*[Turn(text="At last", silent_s=120)] * 3)
    agent = make_agent(provider=stub_provider)
    runs = [intake.accept_message(user=alice, agent=agent, text="go").run for _ in range(3)]
    Run.objects.update(crashes=Run.SUSPECT)
    for run in runs:
        run_pool.submit(runner.execute_run, str(run.pk))
    wait_for(lambda: len(stub.requests) == 3)
    wait_for(lambda: sorted(deaths(*runs)) == [Run.SUSPECT, Run.SUSPECT, Run.SUSPECT + 1])
    for run in runs:
        endings.cancel_run(run, by=alice)
    wait_for(lambda: not Run.objects.live().exists())
    run_pool.stop()
    assert set(Run.objects.values_list("status", flat=True)) == {"cancelled"} and runner.SUSPECTS.turn is None


def is_held(run):
    return Run.objects.get(pk=run.pk).status == "running"


def vanish(run):
    """Its worker does no more; the lease runs out."""
    Run.objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))


def test_who_waits_for_its_turn_is_not_blamed_if_the_worker_vanishes_meanwhile(suspect, work, other):
    try:
        wait_for(lambda: is_held(suspect))
        vanish(suspect)
        again = claims.take_run(suspect.pk, "another")
        assert again.crashes == Run.SUSPECT
        vanish(suspect)
    finally:
        runner.SUSPECTS.leave(other)
    work.join(60)
    runner.execute_run(str(suspect.pk))
    work.join(60)
    suspect.refresh_from_db()
    assert suspect.status == "succeeded"
    assert runner.SUSPECTS.turn is None


def test_whose_workers_vanish_though_they_had_it_alone_fails(suspect, monkeypatch):
    def vanishes(conversation):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Conversation, "hold", vanishes)
    for _ in range(Run.TO_BLAME - Run.SUSPECT):
        with pytest.raises(KeyboardInterrupt):
            runner.execute_run(str(suspect.pk))
        assert runner.SUSPECTS.turn is None
        vanish(suspect)
    runner.execute_run(str(suspect.pk))
    suspect.refresh_from_db()
    assert (suspect.status, suspect.error["code"]) == ("failed", "worker_lost")


def test_who_waits_for_its_turn_can_be_cancelled(suspect, work, other, alice):
    try:
        wait_for(lambda: is_held(suspect))
        endings.cancel_run(Run.objects.get(pk=suspect.pk), by=alice, reason="enough")
        work.join(60)
    finally:
        runner.SUSPECTS.leave(other)
    suspect.refresh_from_db()
    assert (suspect.status, suspect.error["message"]) == ("cancelled", "enough")


OF_RECOVERY = (
    "run_wake",
    "run_lease",
    "run_deadline",
    "run_without_place",
    "run_follower",
    "approval_open",
    "run_live",
)


@dataclass
class Plan:
    """How the database finds the rows of one statement."""

    text: str
    indexes: set[str]
    rows: int | None = None  # of runs that were read; SQLite does not count them


def statements_of(work):
    """The statements about runs that only read, with their values."""
    asked = []

    def remember(execute, statement, values, many, context):
        if "runs_run" in statement and statement.startswith("SELECT"):
            asked.append((statement, values))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(remember):
        work()
    return asked


def plans_of(work):
    asked = statements_of(work)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for statement, values in asked:
                cursor.execute(f"EXPLAIN QUERY PLAN {statement}", values)
                lines = [str(row[-1]) for row in cursor.fetchall()]
                first = next(line for line in lines if "runs_" in line or "INDEX run_" in line)
                yield Plan("\n".join(lines), set(re.findall(r"INDEX (\w+)", first)))
            return
        cursor.execute("ANALYZE runs_run")
        cursor.execute("SET enable_seqscan = off")  # a table of a test is small
        for statement, values in asked:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values)
            (found,) = cursor.fetchone()
            nodes = list(iterate_nodes(found[0]["Plan"]))
            of_runs = [node for node in nodes if node.get("Relation Name") == "runs_run"]
            yield Plan(
                json.dumps(found),
                {node["Index Name"] for node in nodes if "Index Name" in node},
                sum(map(count_rows, of_runs)),
            )
        cursor.execute("RESET enable_seqscan")


@pytest.mark.parametrize(
    ("work", "statements"), [(recovery.tick_recovery, 7), (deactivated.stop_deactivated_accounts, 1)]
)
def test_a_tick_reads_no_more_of_many_runs_than_what_is_due(alice, bob, make_agent, work, statements):
    """A backlog whose agent is at its limit, and the runs of a year, are not read every few seconds."""
    agent = make_agent()
    type(bob).objects.filter(pk=bob.pk).update(is_active=False)
    common = {"principal": alice, "agent": agent}
    Run.objects.bulk_create(Run(**common, status="queued", place=number) for number in range(200))
    Run.objects.bulk_create(Run(**common, status="succeeded", finished_at=timezone.now()) for _ in range(200))
    Run.objects.bulk_create(
        Run(principal=bob, agent=agent, status="succeeded", finished_at=timezone.now()) for _ in range(200)
    )
    plans = list(plans_of(work))
    assert len(plans) >= statements
    for plan in plans:
        if connection.vendor == "sqlite":
            assert plan.indexes & {*OF_RECOVERY, "hold_active", "runs_hold"}, plan
        else:
            assert plan.rows == 0, plan  # PostgreSQL chooses an index by what the table holds
