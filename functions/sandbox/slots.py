"""A bounded number of calls at once, first come first served, and a bounded share of it for each owner."""

from __future__ import annotations

import threading
from collections import Counter, deque

from .forkserver import NoChild


class Slots:
    """At most `size` at once; an owner at most `share` of them."""

    def __init__(self, size: int, share: int) -> None:
        self.size = size
        self.share = share
        self._free = size
        self._owners: Counter[str] = Counter()
        self._waiting: deque[tuple[threading.Event, str | None]] = deque()
        self._lock = threading.Lock()

    @property
    def is_single(self) -> bool:
        """Whether one call is at work, and no other waits to be."""
        return self._free == self.size - 1 and not self._waiting

    def take(self, timeout_s: float, owner: str | None = None) -> None:
        """Hold a slot until give_back(owner). Raises NoChild when none is free in time."""
        with self._lock:
            if not self._waiting and self._may_start(owner):
                self._start(owner)
                return
            turn = threading.Event()
            self._waiting.append((turn, owner))
            self._wake()
        if turn.wait(timeout_s):
            return
        with self._lock:
            if turn.is_set():
                return  # it came just now
            self._waiting.remove((turn, owner))
            running, mine = self.size - self._free, self._owners[owner] if owner is not None else 0
        same = f", {mine} of the same owner, who may have {self.share}" if mine else ""
        raise NoChild(f"no place was free within {timeout_s:g} s; functions at work: {running}{same}")

    def give_back(self, owner: str | None = None) -> None:
        """The slot of a call that has ended: the next in line starts."""
        with self._lock:
            self._free += 1
            if owner is not None:
                self._owners[owner] -= 1
                if not self._owners[owner]:
                    del self._owners[owner]
            if self._waiting:
                self._wake()

    def _wake(self) -> None:
        """The first in line whose owner has not got his share already."""
        for entry in list(self._waiting):
            if not self._free:
                return
            if self._may_start(entry[1]):
                self._waiting.remove(entry)
                self._start(entry[1])
                entry[0].set()

    def _may_start(self, owner: str | None) -> bool:
        return self._free > 0 and (owner is None or self._owners[owner] < self.share)

    def _start(self, owner: str | None) -> None:
        self._free -= 1
        if owner is not None:
            self._owners[owner] += 1
