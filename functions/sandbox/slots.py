"""A limited number of concurrent calls, shared fairly between their owners."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from .forkserver import NoChild


@dataclass(slots=True, eq=False)
class _Waiting:
    owner: str | None
    turn: threading.Event = field(default_factory=threading.Event)


class Slots:
    """At most `size` concurrent calls; an owner has at most `share` of them, and at most `queue`
    more waiting.

    A free slot goes to the owner with the fewest calls in progress; among equals, to the call that
    has waited longest.
    """

    def __init__(self, size: int, share: int, queue: int = 64) -> None:
        self.size = size
        self.share = share
        self._queue = queue
        self._free = size
        self._owners: Counter[str | None] = Counter()
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()

    def take(self, timeout_s: float, owner: str | None = None) -> None:
        """Acquire a slot until give_back(owner). Raises NoChild if none is free in time."""
        with self._lock:
            if self._may_start(owner) and not (self._waiting and self._ready()):
                self._start(owner)
                return
            self._refuse_long_queue(owner)
            waiting = _Waiting(owner)
            self._waiting.append(waiting)
            self._wake()
        if waiting.turn.wait(timeout_s):
            return
        with self._lock:
            if waiting.turn.is_set():
                # It was granted just now.
                return
            self._waiting.remove(waiting)
            running, mine = self.size - self._free, self._owners[owner] if owner is not None else 0
        same = f", {mine} of the same owner, who can have at most {self.share}" if mine else ""
        raise NoChild(f"no slot was free within {timeout_s:g} s; calls in progress: {running}{same}")

    def give_back(self, owner: str | None = None) -> None:
        """Release the slot of a call that has ended; the next call in the queue starts."""
        with self._lock:
            self._free += 1
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]
            if self._waiting:
                self._wake()

    def take_again(self, owner: str | None = None) -> None:
        """Take back a lent slot without waiting: see Loan."""
        with self._lock:
            self._start(owner)

    def _refuse_long_queue(self, owner: str | None) -> None:
        if owner is None:
            return
        queued = sum(one.owner == owner for one in self._waiting)
        if queued >= self._queue:
            raise NoChild(f"{self._queue} calls of the same owner are already waiting")

    def _wake(self) -> None:
        """Start as many calls as allowed, beginning with the owner who has the fewest in progress."""
        while ready := self._ready():
            # The first among equals.
            chosen = min(ready, key=lambda one: self._owners[one.owner])
            self._waiting.remove(chosen)
            self._start(chosen.owner)
            chosen.turn.set()

    def _ready(self) -> list[_Waiting]:
        return [one for one in self._waiting if self._may_start(one.owner)]

    def _may_start(self, owner: str | None) -> bool:
        if self._free <= 0:
            return False
        return owner is None or self._owners[owner] < self.share

    def _start(self, owner: str | None) -> None:
        self._free -= 1
        self._owners[owner] += 1


class Loan:
    """The slot of a call, lent while the call waits for other calls that it made.

    It is taken back without waiting, as two calls could otherwise wait for each other. Therefore,
    for a moment, one additional call may be in progress for each call that waited.
    """

    def __init__(self, slots: Slots, owner: str | None) -> None:
        self._slots, self._owner = slots, owner
        self._waits = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._waits += 1
            if self._waits == 1:
                self._slots.give_back(self._owner)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._waits -= 1
            if not self._waits:
                self._slots.take_again(self._owner)
