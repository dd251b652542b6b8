"""A bounded number of calls at once, shared fairly between those they are for."""

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
    """At most `size` at once; an owner at most `share` of them, with at most `queue` more waiting.

    A place that comes free goes to the owner who has the fewest at work, and among equals to who waits longest.
    """

    def __init__(self, size: int, share: int, queue: int = 64) -> None:
        self.size = size
        self.share = share
        self._queue = queue
        self._free = size
        self._owners: Counter[str | None] = Counter()
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()

    @property
    def is_single(self) -> bool:
        """Whether one call is at work, and no other waits to be."""
        return self._free == self.size - 1 and not self._waiting

    def take(self, timeout_s: float, owner: str | None = None) -> None:
        """Hold a slot until give_back(owner). Raises NoChild when none is free in time."""
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
                return  # it came just now
            self._waiting.remove(waiting)
            running, mine = self.size - self._free, self._owners[owner] if owner is not None else 0
        same = f", {mine} of the same owner, who may have {self.share}" if mine else ""
        raise NoChild(f"no place was free within {timeout_s:g} s; functions at work: {running}{same}")

    def give_back(self, owner: str | None = None) -> None:
        """The slot of a call that has ended: the next in line starts."""
        with self._lock:
            self._free += 1
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]
            if self._waiting:
                self._wake()

    def take_again(self, owner: str | None = None) -> None:
        """Hold a slot that was lent, without waiting: see Loan."""
        with self._lock:
            self._start(owner)

    def _refuse_long_queue(self, owner: str | None) -> None:
        if owner is not None and sum(one.owner == owner for one in self._waiting) >= self._queue:
            raise NoChild(f"{self._queue} calls of the same owner wait already")

    def _wake(self) -> None:
        """Start as many as may start, the owner with the fewest at work first."""
        while ready := self._ready():
            chosen = min(ready, key=lambda one: self._owners[one.owner])  # the first of equals
            self._waiting.remove(chosen)
            self._start(chosen.owner)
            chosen.turn.set()

    def _ready(self) -> list[_Waiting]:
        return [one for one in self._waiting if self._may_start(one.owner)]

    def _may_start(self, owner: str | None) -> bool:
        return self._free > 0 and (owner is None or self._owners[owner] < self.share)

    def _start(self, owner: str | None) -> None:
        self._free -= 1
        self._owners[owner] += 1


class Loan:
    """A call's place, lent while the call waits for others that it made.

    It is taken again without waiting, or two calls could wait for each other; so for a moment one more than the size
    may be at work for each call that waited.
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
