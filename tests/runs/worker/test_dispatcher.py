"""A worker looks for work when it is woken and by itself, takes what it has room for, and nothing twice."""

import threading
import time
from collections import deque

import pytest

from runs.worker import dispatcher
from runs.worker.dispatcher import Dispatcher
from runs.worker.run_pool import RunPool
from tests.live import wait_for


class Bells:
    """A carrier in this process that can lose wake-ups."""

    def __init__(self):
        self.waiting = deque()
        self.wakes_one = True
        self.is_away = False

    def ring(self, pool):
        if not self.is_away:
            self.waiting.append(pool)
        return not self.is_away

    def listen(self, pools, bell, stopping):
        while not stopping.wait(0.005):
            if self.waiting:
                bell(self.waiting.popleft())


class Rows:
    """Rows in pools, and the work on them, which can be held up."""

    def __init__(self):
        self.waiting = {"default": deque(), "gpu": deque()}
        self.lock = threading.Lock()
        self.done, self.looks, self.empty = [], [], 0
        self.may_end = threading.Event()
        self.may_end.set()

    def look(self, pool, more):
        with self.lock:
            self.looks.append(pool)
            row = self.waiting[pool].popleft() if self.waiting[pool] else None
            self.empty += row is None
            has_more = bool(self.waiting[pool])
        if row is None:
            return False
        if has_more:
            more()
        self.may_end.wait(60)
        if row == "break":
            raise RuntimeError("on purpose")
        self.done.append(row)
        return True


@pytest.fixture
def bells(monkeypatch):
    made = Bells()
    monkeypatch.setattr(dispatcher.carriers, "current", lambda: made)
    return made


@pytest.fixture
def rows(monkeypatch):
    made = Rows()
    monkeypatch.setattr(
        dispatcher.fair_queue, "waiting_pools", lambda pools: {one for one in pools if made.waiting[one]}
    )
    monkeypatch.setattr(dispatcher, "WAIT_S", 0.05)
    monkeypatch.setattr(dispatcher, "LOOK_S", 3600)
    return made


@pytest.fixture
def start(bells, rows, monkeypatch):
    monkeypatch.setattr(dispatcher.KEEPER, "start", lambda: None)
    made = []

    def worker(room=4, pools=("default",)):
        made.append(Dispatcher(rows.look, list(pools), RunPool(room)))
        made[-1].start()
        return made[-1]

    yield worker
    rows.may_end.set()
    for one in made:
        one.stop()


def test_each_row_is_worked_on_once_whoever_is_woken(start, bells, rows):
    start(), start()
    rows.waiting["default"].extend(range(50))
    for _ in range(50):
        bells.ring("default")
    wait_for(lambda: len(rows.done) == 50)
    assert sorted(rows.done) == list(range(50))


def test_one_wake_up_is_enough_for_a_long_queue(start, bells, rows):
    start()
    rows.waiting["default"].extend(range(200))
    bells.ring("default")
    wait_for(lambda: len(rows.done) == 200)
    assert rows.empty == 0  # the last row said that none was left


def test_an_empty_look_answers_all_wake_ups_before_it(bells, rows):
    worker = Dispatcher(rows.look, ["default"], RunPool(1))
    for _ in range(500):
        worker.ring("default")
    worker.look(worker.next_pool(0))
    assert worker.next_pool(0) is None and rows.empty == 1
    worker.stopping.set(), worker.run_pool.stop()


def test_what_it_has_no_room_for_stays(start, bells, rows):
    rows.may_end.clear()
    start(room=2)
    rows.waiting["default"].extend(range(5))
    bells.ring("default")
    wait_for(lambda: len(rows.waiting["default"]) == 3)
    start(room=2)
    bells.ring("default")
    wait_for(lambda: len(rows.waiting["default"]) == 1)
    rows.may_end.set()
    wait_for(lambda: len(rows.done) == 5)


def test_a_full_worker_leaves_the_wake_up_to_another(start, bells, rows):
    rows.may_end.clear()
    rows.waiting["default"].append("first")
    start(room=1)
    bells.ring("default")
    wait_for(lambda: rows.looks)
    bells.ring("default"), bells.ring("default")
    time.sleep(0.1)
    assert len(bells.waiting) >= 1


def test_a_lost_wake_up_costs_some_time_only(start, bells, rows, monkeypatch):
    monkeypatch.setattr(dispatcher, "LOOK_S", 0.05)
    bells.is_away = True
    start()
    rows.waiting["default"].extend("ab")
    wait_for(lambda: sorted(rows.done) == ["a", "b"])


def test_the_pools_of_a_worker_take_turns(start, bells, rows):
    rows.waiting["default"].extend(range(20))
    rows.waiting["gpu"].extend("xy")
    worker = Dispatcher(rows.look, ["default", "gpu"], RunPool(1))
    for pool in ("default", "gpu", "gpu"):
        worker.ring(pool)
    for _ in range(4):
        worker.look(worker.next_pool(0))
    assert rows.looks == ["default", "gpu", "default", "gpu"]
    worker.stopping.set(), worker.run_pool.stop()


def test_a_wake_up_during_an_empty_look_is_not_forgotten(start, rows):
    worker = Dispatcher(rows.look, ["default"], RunPool(1))

    def look(pool, more):
        worker.ring(pool)  # a row was stored after the look began
        return False

    worker.work = look
    worker.ring("default")
    worker.look(worker.next_pool(0))
    assert worker.next_pool(0) == "default"
    worker.stopping.set(), worker.run_pool.stop()


def test_work_that_breaks_frees_its_room(start, bells, rows):
    start(room=1)
    rows.waiting["default"].extend(["break", "after all"])
    bells.ring("default")
    wait_for(lambda: rows.done == ["after all"])


def test_a_stop_takes_nothing_more_and_ends_what_is_at_work(start, bells, rows):
    rows.may_end.clear()
    one = start(room=1)
    rows.waiting["default"].extend(["at work", "left"])
    bells.ring("default")
    wait_for(lambda: len(rows.waiting["default"]) == 1)
    stopper = threading.Thread(target=one.stop)
    stopper.start()
    assert one.stopping.wait(60)
    rows.may_end.set()
    stopper.join(60)
    assert rows.done == ["at work"] and list(rows.waiting["default"]) == ["left"]
