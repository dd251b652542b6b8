"""Waits hold no thread inside a hub, and block their thread outside."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from time import monotonic

import pytest

from plumbing import waits
from plumbing.waits import READ, Hub

NAME: ContextVar[str] = ContextVar("name", default="nobody")


class Works:
    """A hub on a thread of its own, until everything given to it has ended."""

    def __init__(self, may_wait=lambda: True):
        self.left, self.running, self.errors = [], 0, []
        self.pool = ThreadPoolExecutor(4)
        self.hub = Hub(self.take, self.pool, may_wait)

    def take(self):
        if self.left:
            return self.left.pop(0)
        return None if self.running else Hub.STOP

    def guarded(self, work):
        def do():
            try:
                work()
            except BaseException as error:
                self.errors.append(error)
            finally:
                self.running -= 1

        return do

    def do(self, *pieces):
        """Seconds until all of them had ended. Raises the first error."""
        self.left, self.running = [self.guarded(piece) for piece in pieces], len(pieces)
        began = monotonic()
        thread = threading.Thread(target=self.hub.run)
        thread.start()
        thread.join(120)
        assert not thread.is_alive()
        self.pool.shutdown()
        if self.errors:
            raise self.errors[0]
        return monotonic() - began


def test_many_wait_at_once_on_one_thread():
    threads = set()

    def work():
        waits.sleep_until(0.2)
        threads.add(threading.get_ident())

    assert Works().do(*[work] * 500) < 60  # one after another: 100 s
    assert len(threads) == 1


def test_a_socket_wakes_the_one_who_waits_for_it():
    pairs, heard = [socket.socketpair() for _ in range(50)], []

    def reader(number):
        def read():
            assert waits.for_socket(pairs[number][0].fileno(), READ, 60)
            heard.append((number, pairs[number][0].recv(10)))

        return read

    def write():
        for number, (_, there) in enumerate(pairs):
            there.send(str(number).encode())

    Works().do(*[reader(number) for number in range(50)], write)
    for one in sum(pairs, ()):
        one.close()
    assert sorted(heard) == [(number, str(number).encode()) for number in range(50)]


@pytest.mark.parametrize("inside", [True, False])
def test_a_wait_for_a_socket_ends_with_its_time_or_when_it_is_over(inside):
    here, there = socket.socketpair()
    is_over = threading.Event()
    threading.Timer(0.3, is_over.set).start()

    def work():
        began = monotonic()
        assert not waits.for_socket(here.fileno(), READ, 0.1)
        assert not waits.for_socket(here.fileno(), READ, 120, is_over.is_set)
        assert not waits.for_socket(here.fileno(), READ, None, is_over.is_set)
        waits.sleep_until(120, is_over.is_set)
        assert 0.3 <= monotonic() - began < 60
        there.send(b"!")
        assert waits.for_socket(here.fileno(), READ, 0, lambda: False)

    Works().do(work) if inside else work()
    here.close(), there.close()


def test_what_blocks_runs_on_another_thread_with_the_same_context_and_raises_here():
    seen = []

    def blocking(word, *, times):
        seen.append((NAME.get(), threading.get_ident()))
        if word == "bad":
            raise ValueError(word)
        return word * times

    def work():
        NAME.set("ann")
        assert waits.run_blocking(blocking, "a", times=2) == "aa"
        with pytest.raises(ValueError, match="bad"):
            waits.run_blocking(blocking, "bad", times=1)
        assert threading.get_ident() not in {thread for _, thread in seen}

    Works().do(work)
    assert [name for name, _ in seen] == ["ann", "ann"]
    assert waits.run_blocking(blocking, "b", times=1) == "b" and seen[-1][1] == threading.get_ident()


def test_what_blocks_does_not_hold_up_siblings():
    may_end, after = threading.Event(), []

    def held():
        assert waits.run_blocking(may_end.wait, 20)

    def sibling():
        waits.sleep_until(0.01)
        after.append(may_end.is_set())
        may_end.set()

    Works().do(held, sibling)
    assert after == [False]


def test_variables_of_the_context_do_not_leak_between_siblings():
    seen = {}

    def work(name):
        def do():
            assert NAME.get() == "nobody"
            NAME.set(name)
            waits.sleep_until(0.01)
            seen[name] = NAME.get()

        return do

    Works().do(*[work(str(number)) for number in range(20)])
    assert seen == {str(number): str(number) for number in range(20)}


def test_inside_a_transaction_a_wait_blocks_and_says_so():
    order = []

    def work():
        with pytest.warns(RuntimeWarning, match="inside a transaction"):
            waits.sleep_until(0.05)
        order.append("waited")

    Works(may_wait=lambda: False).do(work, lambda: order.append("sibling"))
    assert order == ["waited", "sibling"]


def test_a_lock_that_is_held_during_a_wait_does_not_stop_the_thread():
    lock, order = threading.Lock(), []

    def work(name):
        def do():
            assert waits.acquire(lock, 10)
            try:
                order.append(name)
                waits.sleep_until(0.05)
                order.append(name)
            finally:
                lock.release()

        return do

    def impatient():
        assert not waits.acquire(lock, 0.01)

    Works().do(work(1), work(2), impatient)
    assert order in ([1, 1, 2, 2], [2, 2, 1, 1])


@pytest.mark.parametrize("inside", [True, False])
def test_several_things_are_done_at_once_and_the_first_error_is_raised(inside):
    begun, done, together = [], [], []

    def one(item):
        begun.append(item)
        waits.sleep_until(20, lambda: len(begun) == 8)  # one after another, the first would wait in vain
        together.append(len(begun) == 8)
        done.append((item, NAME.get()))
        if item == 3:
            raise ValueError(item)

    def work():
        NAME.set("ann")
        with ThreadPoolExecutor(8) as pool, pytest.raises(ValueError, match="3"):
            waits.each(one, range(8), pool)
        waits.each(one, [], None)
        assert together == [True] * 8

    Works().do(work) if inside else work()
    assert sorted(item for item, _ in done) == list(range(8))
    assert not inside or {name for _, name in done} == {"ann"}


def test_timers_of_ended_waits_are_forgotten():
    works = Works()
    here, there = socket.socketpair()
    there.send(b"!")
    sizes = []

    def work():
        for _ in range(3 * waits.STALE):
            assert waits.for_socket(here.fileno(), READ, 1000)
        sizes.append(len(works.hub.timers))

    works.do(work)
    here.close(), there.close()
    assert sizes[0] <= waits.STALE + 1
