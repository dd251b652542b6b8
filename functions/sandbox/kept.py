"""Children kept for one run (reuse): the same function again in the same process, with new globals."""

from __future__ import annotations

import threading
import time

from .codecache import Compiled
from .conversation import Conversation
from .forkserver import Child, ForkServer
from .limits import Limits

_MAX_CALLS, _MAX_KEPT = 100, 16

# The run, the owner, the function and its limits.
Key = tuple[str, str | None, Compiled, Limits]


class KeptChild:
    """A child that serves all calls with one key."""

    __slots__ = ("key", "server", "child", "conversation", "born", "calls")

    def __init__(self, key: Key, server: ForkServer, child: Child) -> None:
        self.key = key
        self.server = server
        self.child = child
        self.conversation = Conversation(child, key[-1], server)
        self.born = time.monotonic()
        self.calls = 0

    @property
    def is_old(self) -> bool:
        """Whether it may have ended on its own, or will end soon."""
        return time.monotonic() - self.born > self.key[-1].kept_s

    def end(self) -> None:
        """Kill it and close its descriptors."""
        self.child.kill()
        self.child.close()
        self.server.leave()


class KeptChildren:
    """The idle children, several with one key if its calls ran concurrently; a child in use is not
    in this list.
    """

    def __init__(self) -> None:
        # The longest idle child first; so few that comparing is faster than hashing.
        self._idle: list[KeptChild] = []
        self._lock = threading.Lock()

    def take(self, key: Key) -> KeptChild | None:
        """An idle child with this key, if there is one."""
        while (child := self._pop(key)) is not None:
            if not child.is_old and not child.server.is_closed:
                return child
            child.end()
        return None

    def _pop(self, key: Key) -> KeptChild | None:
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place].key == key:
                    return self._idle.pop(place)
            return None

    def put(self, kept: KeptChild) -> None:
        """Keep the child for the next call, or end it. The number of kept children and their idle
        time are limited.
        """
        if kept.calls >= _MAX_CALLS or kept.server.is_closed or not kept.conversation.can_go_on:
            kept.end()
            return
        ending: list[KeptChild] = []
        with self._lock:
            self._idle.append(kept)
            while len(self._idle) > _MAX_KEPT or (len(self._idle) > 1 and self._idle[0].is_old):
                ending.append(self._idle.pop(0))
        for old in ending:
            old.end()

    def has(self, reuse: str) -> bool:
        with self._lock:
            return any(kept.key[0] == reuse for kept in self._idle)

    def release(self, reuse: str | None = None) -> None:
        """End the children of one run, or all of them."""
        ending = []
        staying = []
        with self._lock:
            for kept in self._idle:
                if reuse is None or kept.key[0] == reuse:
                    ending.append(kept)
                else:
                    staying.append(kept)
            self._idle = staying
        for kept in ending:
            kept.end()
