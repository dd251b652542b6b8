"""Waits that hold no thread.

A `Hub` works on many pieces of work on one thread, each a greenlet: while one waits, the others go
on (docs/adr/0019). The functions below wait like this inside a hub, and block their thread
everywhere else, so code that waits reads the same in a worker, a web process and a test. What can
only block, such as a library with connections of its own, runs `elsewhere`: on a thread of a pool.
"""

import os
import select
import selectors
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from time import monotonic, sleep
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
# How often a wait looks whether it is over; what arrives is not delayed.
GLANCE_S = 0.25
# Timers of ended waits that are kept before the heap is cleaned.
STALE = 1000

Found = TypeVar("Found")
# Cheap, never waits, and may be called on any greenlet of the thread.
IsOver = Callable[[], bool]
_thread = threading.local()
AROUND: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("around", default=nullcontext)  # each wait


def never() -> bool:
    return False


# -- what code that waits calls ----------------------------------------------------------------------------------------


def for_socket(descriptor: int, event: int, seconds: float | None, is_over: IsOver | None = None) -> bool:
    """Whether the socket became readable or writable (`event`) before the time passed, or `is_over`
    was true.
    """
    with AROUND.get()():
        hub = here()
        if hub is not None:
            return hub.wait_for_socket(descriptor, event, seconds, is_over)
        return poll_socket(descriptor, event, seconds, is_over)


def poll_socket(descriptor: int, event: int, seconds: float | None, is_over: IsOver | None) -> bool:
    """The same on a thread that has no hub."""
    ends = None if seconds is None else monotonic() + seconds
    poll = select.poll()
    poll.register(descriptor, select.POLLIN if event == READ else select.POLLOUT)
    while True:
        remaining_s = None if ends is None else max(0.0, ends - monotonic())
        glance = remaining_s if is_over is None else GLANCE_S if remaining_s is None else min(remaining_s, GLANCE_S)
        if poll.poll(None if glance is None else glance * 1000):
            return True
        if (is_over and is_over()) or remaining_s == glance:
            return False


def sleep_until(seconds: float, is_over: IsOver | None = None) -> None:
    """Sleep, but not longer than until `is_over` is true."""
    with AROUND.get()():
        hub = here()
        if hub is not None:
            hub.wait(seconds, is_over)
            return
        ends = monotonic() + seconds
        while (remaining_s := ends - monotonic()) > 0 and not (is_over and is_over()):
            sleep(remaining_s if is_over is None else min(remaining_s, GLANCE_S))


@contextmanager
def around(entered: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Until the block ends, the waits of this piece of work are inside of `entered()`. Not those inside
    of it, and not those of siblings that work at the same time (`each`).
    """

    @contextmanager
    def once() -> Iterator[None]:
        inner = AROUND.set(nullcontext)
        try:
            with entered():
                yield
        finally:
            AROUND.reset(inner)

    before = AROUND.set(once)
    try:
        yield
    finally:
        AROUND.reset(before)


def run_blocking(work: Callable[..., Found], *arguments: Any, **options: Any) -> Found:
    """What `work` returns or raises. It may block: inside a hub it runs on another thread, in a copy
    of the context.
    """
    return run_blocking_in_pool(None, work, *arguments, **options)


def run_blocking_in_pool(
    threads: Executor | None, work: Callable[..., Found], *arguments: Any, **options: Any
) -> Found:
    """The same on threads of their own, for what must not take all threads of the pool."""
    hub = here()
    if hub is None:
        return work(*arguments, **options)
    return hub.elsewhere(threads or hub.threads, partial(work, *arguments, **options))


def acquire(lock: threading.Lock, seconds: float) -> bool:
    """Whether the lock was acquired in this time. A lock that is held during waits must be acquired
    like this: its holder may need this thread.
    """
    if here() is None:
        return lock.acquire(timeout=seconds)
    ends = monotonic() + seconds
    while not lock.acquire(blocking=False):
        remaining_s = ends - monotonic()
        if remaining_s <= 0:
            return False
        sleep_until(min(remaining_s, 0.05))
    return True


def each(work: Callable[[Any], Any], items: Iterable[Any], pool: Executor) -> None:
    """Do this for all items at the same time: in the hub, or else on threads of the pool. Raises
    the first error, once all have ended.
    """
    hub = here()
    if hub is None:
        for future in [pool.submit(work, item) for item in items]:
            future.result()
    else:
        hub.each(work, items)


def here() -> "Hub | None":
    """The hub of this piece of work; None if a wait has to block: outside of a hub, and where it
    would keep siblings from the database.
    """
    hub: Hub | None = getattr(_thread, "hub", None)
    if hub is None or getcurrent() is hub.main:
        return None
    if not hub.may_wait():
        warnings.warn("a wait inside a transaction holds up its thread", RuntimeWarning, stacklevel=3)
        return None
    return hub


def is_hub() -> bool:
    """Whether this thread is a hub's."""
    return getattr(_thread, "hub", None) is not None


# -- the hub -----------------------------------------------------------------------------------------------------------


class Waiter:
    """One wait of one greenlet. It is woken once."""

    __slots__ = ("ends", "greenlet", "is_awake", "is_over")

    def __init__(self, ends: float | None = None, is_over: IsOver | None = None) -> None:
        self.greenlet = getcurrent()
        self.ends = ends
        self.is_over = is_over
        self.is_awake = False


class Hub:
    """Works on one thread until `take` returns STOP; `take` returns the next piece of work, if there
    is any.

    `threads` does what blocks; `may_wait` says whether the current piece of work may be left.
    """

    STOP = object()

    def __init__(self, take: Callable[[], Any], threads: Executor, may_wait: Callable[[], bool] = lambda: True) -> None:
        self.take = take
        self.threads = threads
        self.may_wait = may_wait
        # True while it would begin new work at once.
        self.is_resting = False
        self.selector = selectors.DefaultSelector()
        self.ready: deque[tuple[greenlet, Any]] = deque()
        self.timers: list[tuple[float, int, Waiter]] = []
        self.made_timers = 0
        self.ended_timers = 0
        self.watched: set[Waiter] = set()
        self.next_glance = 0.0
        self.posted: deque[Waiter] = deque()
        self.is_asleep = False
        self.bell_lock = threading.Lock()
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.selector.register(self.bell, READ)

    def run(self) -> None:
        self.main = getcurrent()
        _thread.hub = self
        try:
            while self.go_on():
                pass
        finally:
            _thread.hub = None
            self.selector.close()
            with self.bell_lock:
                os.close(self.bell)
                self.bell = -1

    def go_on(self) -> bool:
        """Begin one piece of work, look once who may go on, and let one go on."""
        self.is_resting = not self.ready
        work = self.take()
        self.is_resting = self.is_resting and work is None
        if work is self.STOP:
            return False
        if work is not None:
            greenlet(work).switch()
        self.look(blocks=work is None and not self.ready)
        self.is_resting = False
        if self.ready:
            waiting, value = self.ready.popleft()
            waiting.switch(value)
        return True

    def wake_up(self) -> None:
        """From any thread: there is something to do, or nothing more."""
        with self.bell_lock:
            # A closed descriptor may be somebody else's by now.
            if self.bell >= 0:
                os.eventfd_write(self.bell, 1)

    # What waits

    def wait_for_socket(self, descriptor: int, event: int, seconds: float | None, is_over: IsOver | None) -> bool:
        waiter = self.waiter(seconds, is_over)
        self.selector.register(descriptor, event, waiter)
        try:
            return self.leave(waiter)
        finally:
            self.selector.unregister(descriptor)

    def wait(self, seconds: float | None, is_over: IsOver | None = None) -> bool:
        return self.leave(self.waiter(seconds, is_over))

    def elsewhere(self, threads: Executor, work: Callable[[], Found]) -> Found:
        waiter = self.waiter()
        future = threads.submit(copy_context().run, work)
        future.add_done_callback(lambda _: self.post(waiter))
        self.leave(waiter)
        return future.result()

    def each(self, work: Callable[[Any], Any], items: Iterable[Any]) -> None:
        waiter, errors = self.waiter(), []
        count = len(items := list(items))

        def do(item: Any) -> None:
            nonlocal count
            try:
                work(item)
            except BaseException as error:
                errors.append(error)
            count -= 1
            if not count:
                self.wake(waiter, True)

        for item in items:
            sibling = greenlet(do, parent=self.main)
            sibling.gr_context = copy_context()
            sibling.gr_context.run(AROUND.set, nullcontext)
            self.ready.append((sibling, item))
        if items:
            self.leave(waiter)
        if errors:
            raise errors[0]

    def waiter(self, seconds: float | None = None, is_over: IsOver | None = None) -> Waiter:
        waiter = Waiter(None if seconds is None else monotonic() + seconds, is_over)
        if waiter.ends is not None:
            self.made_timers += 1
            heappush(self.timers, (waiter.ends, self.made_timers, waiter))
        if is_over is not None:
            self.watched.add(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> bool:
        """Let others work until this one is woken."""
        try:
            return bool(self.main.switch())
        finally:
            waiter.is_awake = True
            self.watched.discard(waiter)
            if waiter.ends is not None:
                self.ended_timers += 1

    # What wakes

    def post(self, waiter: Waiter) -> None:
        """From any thread: this one may go on."""
        self.posted.append(waiter)
        if self.is_asleep:
            self.wake_up()

    def wake(self, waiter: Waiter, value: bool) -> None:
        if not waiter.is_awake:
            waiter.is_awake = True
            self.ready.append((waiter.greenlet, value))

    def look(self, *, blocks: bool) -> None:
        self.is_asleep = blocks
        events = self.selector.select(0 if self.posted or not blocks else self.seconds_to_next())
        self.is_asleep = False
        for key, _ in events:
            if key.data is None:
                os.eventfd_read(self.bell)
            else:
                self.wake(key.data, True)
        while self.posted:
            self.wake(self.posted.popleft(), True)
        self.wake_those_over(monotonic())

    def wake_those_over(self, now: float) -> None:
        while self.timers and self.timers[0][0] <= now:
            self.wake(heappop(self.timers)[2], False)
        if self.ended_timers > STALE and self.ended_timers > len(self.timers) // 2:
            self.timers = [timer for timer in self.timers if not timer[2].is_awake]
            heapify(self.timers)
            self.ended_timers = 0
        if self.watched and now >= self.next_glance:
            self.next_glance = now + GLANCE_S
            for waiter in [one for one in self.watched if one.is_over and one.is_over()]:
                self.wake(waiter, False)

    def seconds_to_next(self) -> float | None:
        ends = [self.timers[0][0]] if self.timers else []
        if self.watched:
            ends.append(self.next_glance)
        return max(0.0, min(ends) - monotonic()) if ends else None
