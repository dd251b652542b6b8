"""Threads that end when they have had nothing to do for a while."""

import asyncio
import gc
import threading
import weakref

import pytest
from django.db import connections

from plumbing import idle_thread_pool
from plumbing.idle_thread_pool import RestingThreads
from tests.live import wait_for


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(idle_thread_pool, "REST_S", 0.1)
    monkeypatch.setattr(idle_thread_pool, "KEPT", 1)
    pool = RestingThreads(3, "rested")
    yield pool
    pool.shutdown()


class Gate:
    """Work that goes on when it is opened."""

    def __init__(self):
        self.began, self.opened = threading.Semaphore(0), threading.Event()

    def work(self):
        self.began.release()
        assert self.opened.wait(60)
        return threading.current_thread().name

    def hold(self, pool, number):
        held = [pool.submit(self.work) for _ in range(number)]
        for _ in range(number):
            assert self.began.acquire(timeout=60)
        return held


def test_threads_without_work_end_but_a_few(threads):
    gate = Gate()
    held = gate.hold(threads, 3)
    gate.opened.set()

    assert len({future.result(60) for future in held}) == 3
    wait_for(lambda: len(threads.threads) == threads.alive == 1)
    assert threads.submit(lambda: 42).result(60) == 42


def test_the_thread_that_worked_last_works_next(threads, monkeypatch):
    monkeypatch.setattr(idle_thread_pool, "REST_S", 30)
    gate = Gate()
    held = gate.hold(threads, 3)
    gate.opened.set()
    for future in held:
        future.result(60)
    wait_for(lambda: len(threads.resting) == 3)

    def name():
        found = threads.submit(lambda: threading.current_thread().name).result(60)
        wait_for(lambda: len(threads.resting) == 3)
        return found

    assert len({name() for _ in range(5)}) == 1


def test_work_for_which_there_is_no_thread_waits(threads):
    gate = Gate()
    held = gate.hold(threads, 3)
    late = threads.submit(lambda: "late")

    assert not late.done()
    gate.opened.set()
    assert late.result(60) == "late"
    assert len({future.result(60) for future in held}) == 3


def test_an_ending_thread_closes_its_database_connections(threads, monkeypatch):
    monkeypatch.setattr(idle_thread_pool, "KEPT", 0)
    closed = threading.Event()
    threads.submit(lambda: setattr(connections["default"], "close", closed.set)).result(60)  # that thread's own

    assert closed.wait(60)
    wait_for(lambda: not threads.threads)


def test_a_resting_thread_holds_nothing_of_its_work(threads, monkeypatch):
    monkeypatch.setattr(idle_thread_pool, "REST_S", 30)

    class Large:
        pass

    def fails(large):
        raise ValueError(large)

    large = Large()
    alive = weakref.ref(large)
    with pytest.raises(ValueError):
        threads.submit(fails, large).result(60)
    del large
    wait_for(lambda: len(threads.resting) == 1)
    gc.collect()

    assert alive() is None


def test_work_that_was_cancelled_is_not_done(threads):
    gate, done = Gate(), []
    gate.hold(threads, 3)
    late = threads.submit(done.append, 1)

    assert late.cancel()
    gate.opened.set()
    threads.submit(lambda: None).result(60)
    threads.shutdown()
    assert not done


def test_a_pool_that_was_shut_down_finishes_its_work_and_takes_no_more(threads):
    gate = Gate()
    held = gate.hold(threads, 3)
    late = threads.submit(lambda: "late")
    gate.opened.set()

    threads.shutdown()

    assert late.result(0) == "late" and all(future.done() for future in held)
    with pytest.raises(RuntimeError):
        threads.submit(lambda: None)


def test_what_waits_can_be_cancelled_at_the_end(threads):
    gate = Gate()
    gate.hold(threads, 3)
    late = threads.submit(lambda: "late")

    threads.shutdown(wait=False, cancel_futures=True)
    gate.opened.set()

    assert late.cancelled()


async def test_an_event_loop_can_use_them(threads):
    found = await asyncio.gather(
        *(asyncio.get_running_loop().run_in_executor(threads, str, number) for number in range(20))
    )

    assert found == [str(number) for number in range(20)]


def test_memory_goes_back_when_no_more_threads_will_end(threads, monkeypatch):
    given = []
    monkeypatch.setattr(idle_thread_pool, "give_memory_back", lambda: given.append(len(threads.threads)))
    gate = Gate()
    held = gate.hold(threads, 3)
    gate.opened.set()
    for future in held:
        future.result(60)

    wait_for(lambda: given)
    assert given == [1]


def test_memory_is_given_back_where_the_library_can():
    idle_thread_pool.give_memory_back()
