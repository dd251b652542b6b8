"""A budget is held before it is spent: calls at the same time, children and crashes together spend no more than it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.db.models import Sum
from django.utils import timezone
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from agents.models import Agent
from registry.llm.bids import Bid
from runs.exceptions import RunEnded, RunWaits
from runs.intake import messages as intake
from runs.models import Budget, Hold, Run, Tally
from runs.queue import budgets, carriers, fair_queue
from runs.worker import recovery
from runs.worker.dispatcher import Work
from tests.fakes import calls, says

PARALLEL = 64


class Workers:
    """Real threads that take what is queued, until nothing is; also a carrier that wakes nobody."""

    def __init__(self, threads=8):
        self.threads = threads

    def ring(self, pool):
        return True

    def work_one(self, _):
        try:
            while Work().do("default", lambda: None):
                pass
        finally:
            connection.close()

    def work(self):
        with ThreadPoolExecutor(self.threads) as pool:
            while fair_queue.waiting_pools(["default"]):
                list(pool.map(self.work_one, range(self.threads)))
                if Run.objects.filter(waiting_for="budget").exists():
                    recovery.tick_recovery(timezone.now() + timedelta(seconds=budgets.AGAIN_S))


@pytest.fixture
def workers(monkeypatch, transactional_db):
    made = Workers()
    monkeypatch.setattr(carriers, "current", lambda: made)
    return made


@pytest.fixture
def priced(make_agent, stub_provider):
    """Answers of 100 tokens at most, of which the stub takes 11 + 7; a token costs a cent."""
    stub_provider.prices = {"*": {"input": 10_000, "output": 10_000}}
    stub_provider.save()
    return make_agent(provider=stub_provider, model_params={"max_tokens": 100})


def spent():
    return Run.objects.aggregate(total=Sum("cost"))["total"]


def nothing_is_held():
    return (
        not Hold.objects.filter(is_active=True).exists()
        and not Tally.objects.exclude(held_tokens=0, held_cost=0).exists()
    )


def send_many(person, agent, number=PARALLEL):
    for text in range(number):
        intake.accept_message(user=person, text=f"Message {text}", agent=Agent.objects.get(pk=agent.pk))


@pytest.mark.slow
def test_messages_at_the_same_time_spend_no_more_than_the_budget(workers, alice, priced, stub):
    Budget.objects.create(user=alice, period="day", max_cost="10.00")
    stub.otherwise = lambda body: says("hi")
    send_many(alice, priced)
    workers.work()
    assert set(Run.objects.values_list("status", flat=True)) == {"succeeded", "failed"}
    assert Decimal("8.00") <= spent() <= Decimal(10)
    assert nothing_is_held()
    assert Tally.objects.get().cost == Run.objects.filter(turns=1).count() * 18 * 10**6


@pytest.mark.slow
def test_what_costs_more_than_the_whole_budget_is_not_begun(workers, alice, priced, stub):
    Budget.objects.create(user=alice, period="day", max_cost="1.00")
    send_many(alice, priced, 50)
    workers.work()
    assert (spent(), stub.requests) == (0, [])


@pytest.mark.slow
def test_exactly_as_many_runs_are_admitted_as_the_budget_says(workers, alice, priced, stub):
    Budget.objects.create(user=alice, period="day", max_runs=5)
    stub.otherwise = lambda body: says("hi")
    send_many(alice, priced, 50)
    workers.work()
    assert Run.objects.filter(status="succeeded").count() == 5
    assert Run.objects.filter(error__code="budget_exhausted").count() == 45


@pytest.mark.slow
def test_children_at_the_same_time_share_the_budget_of_their_root(
    workers, alice, make_agent, make_tool, stub_provider, stub
):
    minion = make_agent("minion", provider=stub_provider, model_params={"max_tokens": 100})
    tool = make_tool("ask-minion", kind="agent", source={"agent": minion.pk}, input_schema={"type": "object"})
    boss = make_agent("boss", tools=[tool], provider=stub_provider, model_params={"max_tokens": 500})
    Budget.objects.create(agent=boss, period="run", max_tokens=1500)
    many = calls(*[("ask-minion", {"task": f"count {number}"}) for number in range(PARALLEL)])

    def answer(body):
        is_boss, is_first = body.get("tools"), body["messages"][-1]["role"] == "user"
        return many if is_boss and is_first else says("done")

    stub.otherwise = answer
    root = intake.accept_message(user=alice, text="count", agent=boss).run
    workers.work()
    tree = Run.objects.filter(pk=root.pk) | Run.objects.filter(root=root)
    used = tree.aggregate(tokens=Sum("input_tokens") + Sum("output_tokens"))["tokens"]
    well = Run.objects.filter(root=root, status="succeeded").count()
    assert used <= 1500 and nothing_is_held()
    assert 30 < well <= PARALLEL and Tally.objects.get().tokens == used


@pytest.mark.django_db
def test_an_answer_is_no_longer_than_the_budget_has_room_for(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider)
    Budget.objects.create(user=alice, period="day", max_tokens=300)
    stub.script(says("hi"))
    assert worker.send_message(alice, "Hello", agent).status == "succeeded"
    body = stub.requests[-1]
    assert (body.get("max_tokens") or body.get("max_completion_tokens")) == 256


@pytest.mark.django_db
def test_without_a_budget_nothing_is_held_and_no_limit_is_sent(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider)
    stub.script(says("hi"))
    worker.send_message(alice, "Hello", agent)
    assert not Tally.objects.exists() and "max_tokens" not in stub.requests[-1]


@pytest.mark.django_db
def test_a_call_that_fails_gives_back_what_it_held(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider)
    Budget.objects.create(user=alice, period="day", max_tokens=100_000)
    stub.script(says("", status=400))
    assert worker.send_message(alice, "Hello", agent).status == "failed"
    assert nothing_is_held() and Tally.objects.get().tokens == 0


@pytest.mark.django_db
def test_the_tick_gives_back_what_a_vanished_worker_held(alice, agent):
    Budget.objects.create(user=alice, period="day", max_tokens=1000)
    run = Run.objects.create(principal=alice, agent=agent, status="running", attempt=1)
    budgets.Watch(run).hold(lambda: bid_of(100, 100))
    recovery.tick_recovery()
    assert not nothing_is_held()  # it is at work
    Run._base_manager.update(status="failed")
    recovery.tick_recovery()
    assert nothing_is_held()


@pytest.mark.django_db
def test_another_attempt_takes_the_place_of_a_vanished_one_and_that_one_settles_nothing(alice, agent):
    Budget.objects.create(user=alice, period="day", max_tokens=1000)
    run = Run.objects.create(principal=alice, agent=agent, status="running", attempt=1)
    first, second = budgets.Watch(run), budgets.Watch(run)
    first.hold(lambda: bid_of(400, 400))
    run.attempt = 2
    second.hold(lambda: bid_of(400, 400))
    first.release()
    assert Tally.objects.get().held_tokens == 800
    second.settle(10, Decimal(0))
    tally = Tally.objects.get()
    assert (tally.held_tokens, tally.tokens, tally.runs) == (0, 10, 1)


def bid_of(tokens, output):
    return Bid(tokens, tokens, output, True, lambda read, written: read + written)


class Spending(RuleBasedStateMachine):
    """Runs of one person begin calls, end them, crash and go on, in any order."""

    LIMIT = 1000

    def __init__(self):
        super().__init__()
        Run.objects.all().delete()
        Budget.objects.all().delete()
        self.budget = Budget.objects.create(
            user=self.person, period="month", max_tokens=self.LIMIT, max_cost=Decimal(self.LIMIT) / 10**4, max_runs=6
        )
        self.at_work = {}
        self.used = 0
        self.admitted = set()

    @rule(input=st.integers(1, 300), output=st.integers(1, 300))
    def begin(self, input, output):
        run = Run.objects.create(principal=self.person, agent=self.agent, status="running", attempt=1)
        self.try_to_hold(run, input, output)

    @precondition(lambda self: self.admitted - set(self.at_work))
    @rule(input=st.integers(1, 300), output=st.integers(1, 300))
    def go_on(self, input, output):
        run = Run.objects.get(pk=sorted(self.admitted - set(self.at_work))[0])
        self.try_to_hold(run, input, output)

    def try_to_hold(self, run, input, output):
        watch = budgets.Watch(run)
        bid = bid_of(input, output)
        try:
            watch.hold(lambda: bid)
        except RunWaits:
            return
        except RunEnded:
            assert self.used + input + output > self.LIMIT or len(self.admitted) == 6
            return
        self.at_work[run.pk] = (watch, run, input + output)
        self.admitted.add(run.pk)

    @precondition(lambda self: self.at_work)
    @rule(part=st.floats(0, 1))
    def end_call(self, part):
        run_id, (watch, _, most) = next(iter(self.at_work.items()))
        used = int(most * part)
        watch.settle(used, Decimal(used) / 10**8)
        self.used += used
        del self.at_work[run_id]

    @precondition(lambda self: self.at_work)
    @rule(is_recovered=st.booleans())
    def crash(self, is_recovered):
        run_id, (watch, run, _) = next(iter(self.at_work.items()))
        del self.at_work[run_id]
        Run.objects.filter(pk=run.pk).update(attempt=run.attempt + 1)
        if is_recovered:
            recovery.tick_recovery()
        watch.release()  # a worker that only slept

    @invariant()
    def is_within_its_limit(self):
        tally = Tally.objects.filter(budget=self.budget).first()
        if tally is None:
            return
        held = Hold.objects.filter(is_active=True).aggregate(tokens=Sum("tokens"), cost=Sum("cost"))
        assert tally.tokens == tally.cost == self.used
        assert (tally.held_tokens, tally.held_cost) == (held["tokens"] or 0, held["cost"] or 0)
        assert tally.tokens + tally.held_tokens <= self.LIMIT
        assert tally.runs == len(self.admitted) <= 6

    def teardown(self):
        for watch, _, _ in self.at_work.values():
            watch.release()
        recovery.tick_recovery()
        assert nothing_is_held()


@pytest.mark.slow
@pytest.mark.django_db
def test_no_order_of_calls_and_crashes_spends_more_than_a_budget(alice, agent, time_machine):
    time_machine.move_to(timezone.now().replace(day=15))
    machine = type("SpendingOfAlice", (Spending,), {"person": alice, "agent": agent})
    limits = hypothesis_settings(max_examples=30, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(machine, settings=limits)


@pytest.fixture
def agent(make_agent):
    return make_agent()
