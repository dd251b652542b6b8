"""A run pool does many pieces of work on a few threads, and finishes them before it stops."""

import resource
import threading
from contextvars import ContextVar

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction

from plumbing import waits
from plumbing.threads import release_connection
from runs.worker import run_pool as crews
from runs.worker.run_pool import HUBS, RunPool, most_runs
from tests.live import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
NAME: ContextVar[str] = ContextVar("name", default="")


@pytest.fixture
def run_pool():
    made = RunPool(1000)
    yield made
    made.stop()


class Gate:
    """Pieces of work that wait until it is open."""

    def __init__(self):
        self.is_open = False
        self.inside, self.done, self.threads = set(), [], set()

    def __call__(self, number):
        self.inside.add(number)
        self.threads.add(threading.get_ident())
        while not self.is_open:
            waits.sleep_until(0.05)
        self.done.append(number)


def test_hundreds_wait_at_once_on_a_few_threads(run_pool):
    gate = Gate()
    for number in range(300):
        assert run_pool.has_room(20)
        run_pool.submit(gate, number)
    wait_for(lambda: len(gate.inside) == 300)
    assert len(gate.threads) <= HUBS and run_pool.has_room()
    gate.is_open = True
    run_pool.stop()
    assert sorted(gate.done) == list(range(300))


def test_it_takes_no_more_than_its_size():
    run_pool, gate = RunPool(3), Gate()
    for number in range(3):
        assert run_pool.has_room(20)
        run_pool.submit(gate, number)
    assert not run_pool.has_room(0.05)
    gate.is_open = True
    assert run_pool.has_room(20)
    run_pool.stop()


def test_what_cannot_be_begun_soon_is_not_taken_from_others(run_pool):
    held = threading.Event()
    for _ in range(2 * HUBS):
        run_pool.submit(held.wait, 20)  # blocks its thread: there is one for each
    assert not run_pool.has_room(0.05)
    held.set()
    assert run_pool.has_room(20)


def test_an_error_ends_only_its_own_work(run_pool, caplog):
    gate = Gate()
    gate.is_open = True
    for number in range(20):
        run_pool.submit(gate, number)
        run_pool.submit(int, "no number")
    run_pool.stop()
    assert len(gate.done) == 20 and "failed" in caplog.text


def test_siblings_share_a_connection_and_never_a_transaction(run_pool):
    """Each writes in a transaction of its own, waits outside of it, and reads what it wrote."""
    people, found = get_user_model(), {}
    opened = set()

    def work(number):
        NAME.set(f"user-{number}")
        with transaction.atomic():
            people.objects.create(username=NAME.get())
        release_connection()
        waits.sleep_until(0.05)
        opened.add(id(connection.connection))
        found[number] = people.objects.filter(username=NAME.get()).exists()

    for number in range(60):
        run_pool.has_room(20)
        run_pool.submit(work, number)
    run_pool.stop()
    assert found == dict.fromkeys(range(60), True) and len(opened) <= HUBS


def test_a_wait_inside_a_transaction_is_reported_and_does_not_leave_it(run_pool):
    seen = []

    def work():
        with transaction.atomic(), pytest.warns(RuntimeWarning, match="inside a transaction"):
            waits.sleep_until(0.01)
        seen.append("waited")

    run_pool.submit(work)
    run_pool.stop()
    assert seen == ["waited"]


def test_a_tool_that_blocks_does_not_hold_up_its_siblings(run_pool):
    gate, released = Gate(), threading.Event()
    for _ in range(3 * HUBS):
        run_pool.has_room(20)
        run_pool.submit(waits.run_blocking, released.wait, 30)
    gate.is_open = True
    for number in range(50):
        assert run_pool.has_room(20)
        run_pool.submit(gate, number)
    wait_for(lambda: len(gate.done) == 50)
    assert not released.is_set()
    released.set()


def test_the_limit_of_open_files_limits_the_runs(settings, monkeypatch, caplog):
    limits = [(1024, 20_000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    settings.WORKER_RUNS = 10_000
    assert most_runs() == 10_000 and limits[-1] == (10_500, 20_000)
    limits.append((1024, 2048))
    assert most_runs() == 2048 - crews.SPARE_DESCRIPTORS and "limit of open files" in caplog.text
    limits.append((resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert most_runs() == 10_000
