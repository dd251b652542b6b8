"""What is put on the list is taken once, by a worker that has a thread for it."""

import json
import threading
from urllib.parse import urlsplit

import pytest

from runs.lifecycle import queue
from runs.worker import pickup
from runs.worker.crew import Crew
from runs.worker.pickup import Pickup
from tests.live import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def empty_list():
    queue.line().ask(("DEL", queue.READY))
    yield
    queue.line().ask(("DEL", queue.READY))


class Work:
    """A task that notes what it was given, and can be held up."""

    def __init__(self):
        self.done = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.changed = threading.Condition()

    def __call__(self, id):
        self.may_end.wait(60)
        with self.changed:
            self.done.append(id)
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            return self.changed.wait_for(lambda: len(self.done) >= count, 60)


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def take(work, monkeypatch):
    monkeypatch.setattr(pickup, "LISTEN_S", 0.1)  # a stop is noticed after that
    taken = []

    def start(threads=4, **tasks):
        taken.append(Pickup({queue.EXECUTE_RUN: work, **tasks}, Crew(threads)))
        taken[-1].start()
        return taken[-1]

    yield start
    work.may_end.set()
    for one in taken:
        one.stop()


def test_each_entry_is_worked_on_once_whoever_takes_it(take, work):
    take(), take()
    assert all(queue.send(queue.EXECUTE_RUN, str(number)) for number in range(50))
    assert work.wait_for(50)
    assert sorted(map(int, work.done)) == list(range(50)) and queue.depth() == 0


def test_what_it_has_no_thread_for_stays_on_the_list(take, work):
    work.may_end.clear()
    take(threads=2)
    for number in range(5):
        queue.send(queue.EXECUTE_RUN, str(number))
    wait_for(lambda: queue.depth() == 3)
    take(threads=2)
    wait_for(lambda: queue.depth() == 1)
    work.may_end.set()
    assert work.wait_for(5)


def test_a_task_that_breaks_frees_its_thread(take, work):
    def break_down():
        raise RuntimeError("on purpose")

    take(threads=1, **{queue.EXECUTE_STEP: break_down})
    for entry in ("no json", json.dumps([queue.EXECUTE_STEP]), json.dumps(["unknown"])):
        queue.line().ask(("LPUSH", queue.READY, entry))
    queue.send(queue.EXECUTE_RUN, "after all")
    assert work.wait_for(1)


def test_a_stop_takes_nothing_more_and_ends_what_is_at_work(take, work):
    work.may_end.clear()
    one = take(threads=1)
    queue.send(queue.EXECUTE_RUN, "at work")
    wait_for(lambda: queue.depth() == 0)
    stopper = threading.Thread(target=one.stop)
    stopper.start()
    assert one.stopping.wait(60)
    queue.send(queue.EXECUTE_RUN, "left")
    work.may_end.set()
    stopper.join(60)
    assert work.done == ["at work"] and queue.depth() == 1


def test_a_broker_that_was_away_is_found_again(take, work, settings, monkeypatch, tmp_path):
    real = urlsplit(settings.QUEUE_URL)
    settings.QUEUE_URL = f"unix://{tmp_path}/away.sock?{real.query}"
    monkeypatch.setattr(pickup, "PAUSES_S", (0.01,))
    take()
    queue.send(queue.EXECUTE_RUN, "1")
    assert work.done == []
    (tmp_path / "away.sock").symlink_to(real.path)
    assert work.wait_for(1)


def test_only_a_worker_of_that_queue_takes_runs():
    assert pickup.for_worker({"default"}) is None
    assert pickup.for_worker({"runs", "default"}) is not None


def test_a_broker_that_is_down_refuses_without_raising(settings):
    queue.line.cache_clear()
    settings.QUEUE_URL = "unix:///nowhere/valkey.sock"
    try:
        assert queue.send(queue.EXECUTE_RUN, "1") is False and queue.depth() is None
    finally:
        queue.line.cache_clear()
