"""Stops a model call when its run is cancelled or out of time, even while it waits for bytes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from time import monotonic

from agents.tools import never
from plumbing import clock, waits
from plumbing.waits import GLANCE_S
from registry.exceptions import ModelCancelled, ModelFailed


class Watch:
    """The end of one model call: cancelled, or out of time. `check` is cheap when called often."""

    __slots__ = ("_ends", "_expected", "_is_cancelled", "_next")

    def __init__(self, is_cancelled: Callable[[], bool] = never, deadline: datetime | None = None) -> None:
        now = monotonic()
        self._is_cancelled = is_cancelled
        self._next = now + GLANCE_S
        self._expected: float | None = None
        self._ends: float | None = None
        if deadline is not None:
            remaining = deadline - clock.near()
            self._ends = now + remaining.total_seconds()

    def check(self) -> None:
        """Raises ModelCancelled or ModelFailed(deadline)."""
        now = monotonic()
        if self._ends is not None and now >= self._ends:
            raise ModelFailed("deadline", "The run's time limit passed before the model answered.")
        if now < self._next:
            return
        self._next = now + GLANCE_S
        if self._is_cancelled():
            raise ModelCancelled

    def insist(self) -> None:
        """`check` that looks at the cancellation in any case."""
        self._next = 0.0
        self.check()

    def is_over(self) -> bool:
        if self._is_cancelled():
            return True
        return self._ends is not None and monotonic() >= self._ends

    def remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        if self._ends is None:
            return None
        return max(0.0, self._ends - monotonic())

    def expect_within(self, seconds: float | None) -> None:
        """What the server is sending now has to be complete by then; None: nothing is being sent."""
        if seconds is None:
            self._expected = None
        else:
            self._expected = monotonic() + seconds

    def at_most(self, seconds: float | None) -> float | None:
        """Not longer than until the deadline, or until what was expected should have come."""
        limits = []
        if seconds is not None:
            limits.append(seconds)
        for time in (self._ends, self._expected):
            if time is not None:
                limits.append(max(0.0, time - monotonic()))
        return min(limits, default=None)

    def pause(self, seconds: float) -> None:
        """Sleep, but wake on a cancellation or at the deadline."""
        if self._ends is not None:
            seconds = min(seconds, max(0.0, self._ends - monotonic()))
        waits.sleep_until(seconds, self.is_over)
        self.insist()


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Inside this context, reads of model connections check `watch` while they wait."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def current() -> Watch | None:
    return _watch.get()
