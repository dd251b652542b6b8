"""Children kept for one run (reuse): the same function again in the same process, with fresh globals."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from .codecache import Compiled
from .forkserver import Child, ForkServer
from .limits import Limits

_MAX_CALLS, _MAX_AGE_S, _MAX_KEPT = 100, 60.0, 16

Key = tuple[str, Compiled, Limits]  # whose run, which function, how limited


@dataclass(slots=True)
class KeptChild:
    """A child that has done at least one job of this key."""

    key: Key
    server: ForkServer
    child: Child
    born: float = field(default_factory=time.monotonic)
    calls: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether it has served long enough."""
        return self.calls >= _MAX_CALLS or time.monotonic() - self.born > _MAX_AGE_S

    def end(self) -> None:
        """Kill it and let go."""
        self.child.kill()
        self.child.close()
        self.server.leave()


class KeptChildren:
    """The idle ones, several of one key where its calls ran side by side; a child is out of here while it works."""

    def __init__(self) -> None:
        self._idle: list[KeptChild] = []  # the longest idle first; so few that comparing beats hashing
        self._lock = threading.Lock()

    def take(self, key: Key) -> KeptChild | None:
        """An idle child of this key, if there is one."""
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place].key == key:
                    return self._idle.pop(place)
            return None

    def put(self, kept: KeptChild) -> None:
        """Keep it for the next call, or end it; never more than a few in all, and none past its time."""
        ending: list[KeptChild] = []
        with self._lock:
            (ending if kept.is_spent else self._idle).append(kept)
            while len(self._idle) > _MAX_KEPT or (self._idle and self._idle[0].is_spent):
                ending.append(self._idle.pop(0))
        for spent in ending:
            spent.end()

    def release(self, reuse: str | None = None) -> None:
        """End those of one run, or all."""
        with self._lock:
            ending = [kept for kept in self._idle if reuse in (None, kept.key[0])]
            self._idle = [kept for kept in self._idle if reuse not in (None, kept.key[0])]
        for kept in ending:
            kept.end()
