"""Children kept for one run (reuse): the same function again in the same process, with fresh globals."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from .forkserver import Child, ForkServer

_MAX_CALLS, _MAX_AGE_S, _MAX_KEPT = 100, 60.0, 8


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
    """By key; a child is out of here while it works, so two calls never share it at the same moment."""

    def __init__(self) -> None:
        self._children: OrderedDict[Any, KeptChild] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Any) -> KeptChild | None:
        """The idle child of this key, if there is one."""
        with self._lock:
            return self._children.pop(key, None)

    def put(self, key: Any, kept: KeptChild) -> None:
        """Keep it for the next call, or end it; never more than a few, and none past its time."""
        ending = []
        with self._lock:
            if kept.is_spent or key in self._children:
                ending.append(kept)
            else:
                self._children[key] = kept
            while len(self._children) > _MAX_KEPT:
                ending.append(self._children.popitem(last=False)[1])
            while self._children and next(iter(self._children.values())).is_spent:
                ending.append(self._children.popitem(last=False)[1])
        for spent in ending:
            spent.end()

    def release(self, reuse: str | None = None) -> None:
        """End those of one run, or all."""
        with self._lock:
            keys = [key for key in self._children if reuse is None or key[0] == reuse]
            ending = [self._children.pop(key) for key in keys]
        for kept in ending:
            kept.end()
