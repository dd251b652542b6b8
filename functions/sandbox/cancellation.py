"""Stopping a running call from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancellation:
    """Give one to execute(); cancel() then kills the call, now or before it starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """Stop the call. Does nothing to one that has ended."""
        with self._lock:
            self.is_cancelled = True
            if self._stop is not None:
                self._stop()

    def attach(self, stop: Callable[[], None] | None) -> None:
        """The pool says how to stop what runs now; None when it has ended."""
        with self._lock:
            self._stop = stop
            if stop is not None and self.is_cancelled:
                stop()
