"""Children kept for one run (reuse): the same function again in the same process, with fresh globals."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from .forkserver import Child, ForkServer

_MAX_CALLS, _MAX_AGE_S, _MAX_KEPT = 100, 60.0, 16


@dataclass(slots=True)
class KeptChild:
    """A child that has done at least one job of this key."""

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
    """By key, several of one key where its calls ran side by side; a child is out of here while it works."""

    def __init__(self) -> None:
        self._children: OrderedDict[Any, list[KeptChild]] = OrderedDict()  # the key used last stands last
        self._lock = threading.Lock()

    def take(self, key: Any) -> KeptChild | None:
        """An idle child of this key, if there is one."""
        with self._lock:
            return self._pop(key, -1) if key in self._children else None

    def put(self, key: Any, kept: KeptChild) -> None:
        """Keep it for the next call, or end it; never more than a few in all, and none past its time."""
        ending = []
        with self._lock:
            if kept.is_spent:
                ending.append(kept)
            else:
                self._children.setdefault(key, []).append(kept)
                self._children.move_to_end(key)
            while sum(map(len, self._children.values())) > _MAX_KEPT or self._is_oldest_spent():
                ending.append(self._pop(next(iter(self._children)), 0))
        for spent in ending:
            spent.end()

    def release(self, reuse: str | None = None) -> None:
        """End those of one run, or all."""
        with self._lock:
            keys = [key for key in self._children if reuse is None or key[0] == reuse]
            ending = [kept for key in keys for kept in self._children.pop(key)]
        for kept in ending:
            kept.end()

    def _pop(self, key: Any, place: int) -> KeptChild:
        kept = self._children[key].pop(place)
        if not self._children[key]:
            del self._children[key]
        return kept

    def _is_oldest_spent(self) -> bool:
        return bool(self._children) and next(iter(self._children.values()))[0].is_spent
