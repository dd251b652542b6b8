"""Stopping a running call from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancellation:
    """Pass an instance to execute(); cancel() then kills the call, even if it has not started yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """Stop the call. Has no effect on a call that has ended."""
        with self._lock:
            self.is_cancelled = True
            if self._stop is not None:
                self._stop()

    def attach(self, stop: Callable[[], None] | None) -> None:
        """Set the function that stops the running call; None when the call has ended."""
        with self._lock:
            self._stop = stop
            if stop is not None and self.is_cancelled:
                stop()
