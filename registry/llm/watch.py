"""Stops a model call when its run is cancelled or out of time, even while it waits for bytes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from time import monotonic

from django.utils import timezone

from agents.tools import never
from registry.exceptions import ModelCancelled, ModelFailed

GLANCE_S = 0.25  # how often a silent model call checks whether it is still wanted; arriving bytes are not delayed


class Watch:
    """The end of one model call: cancelled, or out of time. `check` is cheap when called often."""

    __slots__ = ("_ends", "_is_cancelled", "_next")

    def __init__(self, is_cancelled: Callable[[], bool] = never, deadline: datetime | None = None) -> None:
        now = monotonic()
        self._is_cancelled = is_cancelled
        self._next = now + GLANCE_S
        self._ends = None if deadline is None else now + (deadline - timezone.now()).total_seconds()

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

    def remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return None if self._ends is None else max(0.0, self._ends - monotonic())

    def pause(self, seconds: float) -> None:
        """Sleep, but wake on a cancellation or at the deadline."""
        ends = monotonic() + seconds
        while (left := ends - monotonic()) > 0:
            self.check()
            _sleep.wait(min(left, GLANCE_S))


_sleep = threading.Event()  # never set: waiting on it is a sleep
_local = threading.local()


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Inside this context, reads of this thread's model connections check `watch` while they wait."""
    before = getattr(_local, "watch", None)
    _local.watch = watch
    try:
        yield
    finally:
        _local.watch = before


def current() -> Watch | None:
    return getattr(_local, "watch", None)
