"""Many runs at once on a run pool, each waiting for a silent model without a thread of its own."""

import threading
from datetime import timedelta
from time import monotonic

import psutil
import pytest
from django.utils import timezone

from agents.tools import ToolResult
from plumbing import waits
from runs.intake import messages as intake
from runs.models import Run, ToolCallRecord
from runs.queue import endings
from runs.queue.leases import KEEPER, Keeper, Lease, worker_name
from runs.worker import runner
from runs.worker.run_pool import HUBS, RunPool
from tests.fakes import Turn, calls, says
from tests.live import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 60
SILENT = Turn(text="At last", silent_s=120)


@pytest.fixture
def run_pool():
    made = RunPool(1000)
    yield made
    made.stop()


@pytest.fixture
def launch(run_pool, alice, make_agent, make_tool, stub_provider, monkeypatch):
    """Accepts messages, and gives their runs to the run_pool; those whose time is over end as expired."""
    agent = make_agent(tools=[make_tool()], provider=stub_provider)

    def start(count=COUNT, **values):
        runs = [intake.accept_message(user=alice, text=f"Message {n}", agent=agent).run for n in range(count)]
        Run.objects.filter(pk__in=[run.pk for run in runs]).update(**values)
        for run in runs:
            assert run_pool.has_room(30)
            run_pool.submit(runner.execute_run, str(run.pk))
        return runs

    return start


def connections_to(stub):
    """Those of this process; the stub notices an end only when it writes."""
    found = psutil.Process().net_connections("tcp4")
    return sum(bool(one.raddr) and one.raddr.port == stub.port and one.status == "ESTABLISHED" for one in found)


def statuses(runs):
    return dict(Run.objects.filter(pk__in=[run.pk for run in runs]).values_list("pk", "status"))


def test_a_cancel_reaches_each_of_many_in_flight_and_closes_its_connection(launch, run_pool, stub, alice):
    stub.script(*[SILENT] * COUNT)
    before = set(threading.enumerate())  # another test's pool may be about to end
    runs = launch()
    wait_for(lambda: len(stub.requests) == COUNT)
    new = set(threading.enumerate()) - before
    assert sum("run-pool-" in thread.name for thread in new) <= HUBS
    one, *others = runs
    began = monotonic()
    endings.cancel_run(one, by=alice)
    wait_for(lambda: connections_to(stub) == COUNT - 1)
    wait_for(lambda: statuses([one]) == {one.pk: "cancelled"})
    assert monotonic() - began < 60, "it did not notice, and ended for another reason"
    assert set(statuses(others).values()) == {"running"}
    for run in others:
        endings.cancel_run(run, by=alice)
    wait_for(lambda: connections_to(stub) == 0)
    run_pool.stop()
    assert set(statuses(runs).values()) == {"cancelled"} and not KEEPER.held()


def test_deadlines_hold_in_flight(launch, run_pool, stub):
    stub.script(*[SILENT] * COUNT)
    runs = launch(deadline=timezone.now() + timedelta(seconds=8))
    run_pool.stop()
    assert set(statuses(runs).values()) == {"expired"} and stub.requests
    assert timezone.now() - runs[0].created_at < timedelta(seconds=100), "the model answered"


def test_each_run_gets_its_own_tools_result_and_answer(launch, run_pool, stub, functions):
    """Tools that wait in the run_pool and tools that block elsewhere; nothing of one run reaches another."""
    stub.otherwise = turn_of
    functions.call = blocking_and_waiting
    runs = launch()
    run_pool.stop()
    assert set(statuses(runs).values()) == {"succeeded"}
    for number, run in enumerate(runs):
        assert run.messages.order_by("seq").last().text == f"It is {number + 1}"
    assert ToolCallRecord.objects.filter(outcome="ok").count() == COUNT


def turn_of(body):
    last = body["messages"][-1]
    if last["role"] == "tool":
        return says(f"It is {last['content']}")
    number = int(last["content"].removeprefix("Message "))
    return calls(("add", {"a": number, "b": 1}), silent_s=0.05)


def blocking_and_waiting(tool, call, context):
    waits.sleep_until(0.05)
    return ToolResult(ok=True, value=waits.run_blocking(sum, [call.arguments["a"], call.arguments["b"]]))


def test_a_lease_that_is_lost_stops_the_model_and_writes_nothing(launch, run_pool, stub):
    stub.script(*[SILENT] * 5)
    runs = launch(5)
    wait_for(lambda: len(stub.requests) == 5)
    taken = Run.objects.filter(pk__in=[run.pk for run in runs])
    taken.update(lease_owner="another:1", attempt=7)
    KEEPER.renew()
    wait_for(lambda: connections_to(stub) == 0)
    run_pool.stop()
    assert set(statuses(runs).values()) == {"running"}
    assert set(taken.values_list("lease_owner", "attempt")) == {("another:1", 7)}


def test_one_keeper_renews_thousands_of_leases_in_few_statements(
    alice, make_agent, stub_provider, django_assert_num_queries
):
    agent = make_agent(provider=stub_provider)
    first = intake.accept_message(user=alice, text="Hello", agent=agent).run
    held = {"status": "running", "lease_owner": worker_name(), "attempt": 1}
    fields = {
        field.attname: getattr(first, field.attname) for field in Run._meta.concrete_fields if not field.primary_key
    }
    fields |= {"idempotency_key": None} if "idempotency_key" in fields else {}
    rows = Run.objects.bulk_create([Run(**fields | held) for _ in range(2500)], batch_size=200)
    keeper = Keeper()
    keeper.leases = {str(row.pk): {Lease(row)} for row in rows}
    keeper.leases, leases = {}, keeper.leases
    keeper.renew()  # a worker's first report of itself makes its row
    keeper.leases = leases
    with django_assert_num_queries(3 * 2 + 1):
        keeper.renew()
    assert Run.objects.filter(lease_expires_at__gt=timezone.now()).count() == 2500
    assert not any(lease.is_cancelled() for lease in keeper.held())
