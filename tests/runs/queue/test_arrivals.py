"""A run is stored claimed where it can begin at once; each condition of that, and what is given back."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.models import Agent, Provider, SiteHold, Team
from agents.spec import FORMAT
from plumbing import clock
from runs.exceptions import SessionBusy
from runs.intake import messages as intake
from runs.models import Run, RunEvent, StepRun, Webhook, WebhookDelivery
from runs.queue import arrivals, claims, endings
from runs.queue.leases import KEEPER, worker_name
from runs.worker import recovery, runner
from runs.worker.process import Worker
from tests.fakes import says

pytestmark = pytest.mark.django_db


class Pool:
    """The run pool of this process, with room for one run."""

    def __init__(self):
        self.has_room, self.reserved, self.begun, self.looks = True, 0, [], []

    def reserve(self, pool):
        self.reserved += self.has_room and pool == "default"
        return self.has_room and pool == "default"

    def give_back(self):
        self.reserved -= 1

    def begin(self, run, lease):
        self.reserved -= 1
        self.begun.append((run, lease))

    def take_next(self, pool, floor):
        self.reserved -= 1
        self.looks.append((pool, floor))

    def work(self):
        while self.begun:
            runner.carry_out(*self.begun.pop())


@pytest.fixture
def pool(monkeypatch, worker):
    monkeypatch.setattr(arrivals, "is_in_transaction", lambda: False)
    monkeypatch.setattr(arrivals.Here, "turn", 0)
    pool = Pool()
    monkeypatch.setattr(arrivals.Here, "room", pool)
    yield pool
    assert not pool.reserved, "room that was kept is used or given back"
    for lease in KEEPER.held():
        KEEPER.remove(lease)


@pytest.fixture
def agent(make_agent, stub_provider):
    return make_agent(provider=stub_provider)


@pytest.fixture
def send(alice, agent, django_capture_on_commit_callbacks):
    def send(text="hello", **fields):
        with django_capture_on_commit_callbacks(execute=True):
            run = intake.accept_message(user=alice, text=text, **{"agent": agent, **fields}).run
        return Run.objects.get(pk=run.pk)

    return send


@pytest.fixture
def queue_run(alice, agent):
    """A run that waits for a worker."""

    def queue(**fields):
        run = intake.message_run(user=alice, agent=agent, trigger=fields.pop("trigger", "message"))
        for name, value in fields.items():
            setattr(run, name, value)
        intake.open_sessions([(run, "hello", None)])
        return run

    return queue


def events_of(run):
    return list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", "type"))


def test_it_is_stored_claimed_and_begins_without_a_wake_up(pool, worker, send):
    run = send()
    assert (run.status, run.attempt, run.place, run.lease_owner) == ("running", 1, None, worker_name())
    assert run.lease_expires_at > timezone.now() and run.started_at and run.claimed_from == "queued"
    assert events_of(run) == [(1, "run.queued"), (2, "run.started")] and run.last_event == 2
    [(begun, lease)] = pool.begun
    assert begun.pk == run.pk and lease in KEEPER.held() and not worker.sent
    assert claims.claim_next("default") is None, "nobody else takes it"


def test_it_is_carried_out_as_if_a_worker_had_taken_it(pool, send, stub):
    stub.script(says("one"), says("two"))
    first = send()
    pool.work()
    first.refresh_from_db()
    second = send("and now?", session=str(first.session_id), agent=first.agent)
    pool.work()
    second.refresh_from_db()
    assert (first.status, second.status) == ("succeeded", "succeeded")
    kinds = [kind for _, kind in events_of(second)]
    assert kinds == ["run.queued", "run.started", "model.finished", "run.finished"]
    assert [message.text for message in first.session.messages.order_by("seq")] == ["hello", "one", "and now?", "two"]
    assert not KEEPER.held()
    assert "one" in str(stub.requests[-1])


def test_who_stored_it_and_who_works_on_it_share_no_object(pool, alice, agent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        answered = intake.accept_message(user=alice, text="hello", agent=agent).run
    [(begun, _)] = pool.begun
    begun.status, begun.session = "failed", None
    assert answered.status == "running" and answered.session is not None and answered.lease_expires_at is None


# -- the conditions ---------------------------------------------------------------------------------------------------


def limit(model):
    return lambda agent, **_: model.objects.update(max_running=5)


def limit_team(agent, charlie, **_):
    team = Team.objects.create(name="sales", max_running=5)
    Agent.objects.filter(pk=agent.pk).update(team=team)


def another_pool(agent, **_):
    Agent.objects.filter(pk=agent.pk).update(pool="slow")


def no_room(pool, **_):
    pool.has_room = False


def no_pool(monkeypatch, **_):
    monkeypatch.setattr(arrivals.Here, "room", None)


def on_hold(**_):
    SiteHold.objects.create(snapshot_at=clock.near(), reason="restored")


def a_newer_format(monkeypatch, **_):
    monkeypatch.setattr(arrivals, "FORMAT", FORMAT - 1)


def somebody_waits(queue_run, **_):
    queue_run()


def somebody_waits_behind_one_of_a_limited_agent(queue_run, make_agent, **_):
    queue_run(agent=make_agent("limited", max_running=1))
    queue_run()


def one_without_an_agent_waits(queue_run, **_):
    queue_run(agent=None, version=None)


def a_step_waits(queue_run, **_):
    run = queue_run()
    Run.objects.filter(pk=run.pk).update(place=None)
    StepRun.objects.create(run=run, key="a", place=1, slots=1)


def in_a_transaction(monkeypatch, **_):
    monkeypatch.setattr(arrivals, "is_in_transaction", lambda: transaction.get_connection().in_atomic_block)


PREVENT = [
    limit(Agent), limit(Provider), limit_team, another_pool, no_room, no_pool, on_hold, a_newer_format, somebody_waits,
    somebody_waits_behind_one_of_a_limited_agent, one_without_an_agent_waits,
    a_step_waits, in_a_transaction,
]  # fmt: skip


@pytest.mark.parametrize("prevent", PREVENT)
def test_it_is_queued_otherwise(pool, worker, send, prevent, agent, charlie, queue_run, make_agent, monkeypatch):
    prevent(
        agent=agent, charlie=charlie, pool=pool, queue_run=queue_run, make_agent=make_agent, monkeypatch=monkeypatch
    )
    run = send(agent=Agent.objects.get(pk=agent.pk).name)
    assert (run.status, run.attempt, run.lease_owner) == ("queued", 0, "") and run.place is not None
    assert events_of(run) == [(1, "run.queued")] and not pool.begun and not KEEPER.held()
    assert worker.sent, "a worker is woken"


def a_batch_waits(queue_run, **_):
    queue_run(priority=Run.Priority.BATCH)


def one_of_a_newer_format_waits(queue_run, **_):
    queue_run(needs=FORMAT + 1)


def a_suspect_waits(queue_run, **_):
    run = queue_run()
    lost = {"lease_owner": "dead:1", "lease_expires_at": timezone.now() - timedelta(seconds=1), "attempt": 1}
    run.change("running", place=1, **lost)


def one_waits_in_another_pool(queue_run, **_):
    queue_run(pool="slow")


def one_waits_for_its_limit(queue_run, make_agent, **_):
    queue_run(agent=make_agent("limited", max_running=1))


@pytest.mark.parametrize(
    "wait",
    [one_waits_for_its_limit, a_batch_waits, one_of_a_newer_format_waits, a_suspect_waits, one_waits_in_another_pool],
)
def test_what_a_worker_would_not_take_first_does_not_stand_before_it(pool, send, wait, queue_run, make_agent):
    wait(queue_run=queue_run, make_agent=make_agent)
    assert send().status == "running"


def test_while_others_wait_below_some_starts_are_theirs(pool, send, queue_run, worker):
    """As many of sixteen as a worker leaves to them; those that arrive then are queued."""
    queue_run(priority=Run.Priority.BATCH)
    statuses = []
    for number in range(16):
        statuses.append(send(f"{number}").status)
        Run.objects.filter(priority=0).update(place=None)  # a worker was woken and has taken it
    assert sorted(floor for _, floor in pool.looks) == [1, 1, 2, 3]
    assert statuses[:3] == ["running", "running", "queued"] and statuses.count("queued") == 4


def test_a_run_that_follows_another_waits_for_it(pool, send):
    first = send()
    second = send("next", session=str(first.session_id), on_busy="enqueue")
    assert (second.status, second.after_id, second.place) == ("queued", first.pk, None)
    assert len(pool.begun) == 1


# -- given back -------------------------------------------------------------------------------------------------------


def test_a_refused_message_gives_the_room_back(pool, send):
    first = send()
    with pytest.raises(SessionBusy):
        send("next", session=str(first.session_id))
    assert len(pool.begun) == 1


def test_what_is_rolled_back_does_not_begin(pool, send, monkeypatch):
    def break_off(self, run, message):
        begin(self, run, message)
        raise IntegrityError("at the last moment")

    begin = arrivals.Start.begin_on_commit
    monkeypatch.setattr(arrivals.Start, "begin_on_commit", break_off)
    with pytest.raises(IntegrityError):
        send()
    assert not Run.objects.exists() and not pool.begun and not KEEPER.held()


def test_what_is_rolled_back_leaves_no_look_either(pool, send, queue_run, monkeypatch):
    queue_run(priority=Run.Priority.BATCH)
    arrivals.Here.turn = 2
    monkeypatch.setattr(intake, "first_events", lambda run: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        send()
    assert not pool.looks


def test_a_request_that_is_repeated_begins_once(pool, send):
    one, other = (send("hello", idempotency_key="k") for _ in range(2))
    assert one.pk == other.pk and len(pool.begun) == 1


# -- what a claim sees ------------------------------------------------------------------------------------------------


def test_a_cancellation_before_it_begins_is_heard(pool, alice, send, django_capture_on_commit_callbacks):
    run = send()
    with django_capture_on_commit_callbacks(execute=True):
        endings.cancel(run, by=alice)
    [(_, lease)] = pool.begun
    assert lease.is_cancelled()
    pool.work()
    assert Run.objects.get(pk=run.pk).status == "cancelled"


def test_the_budget_of_a_message_holds(pool, send, stub):
    stub.script(says("too dear"))
    run = send(asked={"budget": {"tokens": 1}})
    pool.work()
    run.refresh_from_db()
    assert (run.status, run.error["code"]) == ("failed", "budget_exhausted")


def test_a_webhook_hears_that_it_has_started(pool, alice, send):
    Webhook.objects.create(owner=alice, url="https://example.org/", events=["run.started"])
    send()
    assert [one.type for one in WebhookDelivery.objects.all()] == ["run.started"]


def test_its_lease_is_renewed_from_the_commit_on(pool, send):
    run = send()
    Run.objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() + timedelta(seconds=1))
    KEEPER.renew_each(KEEPER.held())
    assert Run.objects.get(pk=run.pk).lease_expires_at > timezone.now() + timedelta(seconds=5)


def test_a_process_that_dies_before_it_begins_leaves_a_run_that_another_takes(pool, send):
    run = send()
    pool.begun.clear()
    past = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(lease_expires_at=past)
    for lease in KEEPER.held():
        KEEPER.remove(lease)
    assert recovery.line_up_lost() == 1
    taken = claims.claim_next("default")
    assert (taken.pk, taken.attempt, claims.how_claimed(taken)) == (run.pk, 2, "run.recovered")


def test_a_pool_keeps_room_for_as_many_runs_as_it_has_and_until_it_stops(settings):
    settings.WORKER_RUNS = 1
    pool = Worker("web")
    assert not pool.reserve("slow")
    assert pool.reserve("default") and not pool.reserve("default")
    pool.give_back()
    assert pool.reserve("default")
    pool.give_back()
    pool.pickup.take_no_more()
    assert not pool.reserve("default")
