"""Stops functions whose run was cancelled: one thread checks all functions in progress four times a
second.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from functions.sandbox import Cancellation
from plumbing.threads import ProcessThread

EVERY_S = 0.25


class Watch:
    """The watching thread. `is_cancelled` is called in that thread and must not use the database."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls: dict[Cancellation, Callable[[], bool]] = {}
        self.wanted = threading.Event()
        self.thread = ProcessThread("function-watch", self.keep_looking)

    @contextmanager
    def over(self, is_cancelled: Callable[[], bool]) -> Iterator[Cancellation]:
        """A cancellation for one call, checked while the call is in progress."""
        cancellation = Cancellation()
        with self.lock:
            self.calls[cancellation] = is_cancelled
            self.wanted.set()
            self.thread.start()
        try:
            yield cancellation
        finally:
            with self.lock:
                self.calls.pop(cancellation, None)
                if not self.calls:
                    self.wanted.clear()

    def keep_looking(self) -> None:
        pause = threading.Event()
        while True:
            self.wanted.wait()
            pause.wait(EVERY_S)
            with self.lock:
                calls = list(self.calls.items())
            for cancellation, is_cancelled in calls:
                if is_cancelled():
                    cancellation.cancel()


watch = Watch()
