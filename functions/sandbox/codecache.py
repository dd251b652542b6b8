"""Compiled functions by content: the same source, entry, imports and policy never compile twice."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from .outcome import Refusal

_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)  # by identity: it is part of a key, looked up in each call
class Compiled:
    """Refusals, or bytecode that only a child may load, with what the compiler learnt about the entry."""

    refusals: tuple[Refusal, ...] = ()
    bytecode: bytes = b""
    profile: str = "core"
    order: bytes = b""  # what a child is told of it: JSON without braces


class CodeCache:
    """Least recently used goes first once sources and bytecode weigh more than 64 MB."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, Compiled] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Compiled | None:
        """What is known under the key."""
        entry = self._entries.get(key)
        if entry is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:
                pass  # forgotten this very moment, in another thread
        return entry

    def put(self, key: Key, entry: Compiled) -> None:
        """Remember it, and forget the oldest if that is too much."""
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = entry
            self._bytes += _weight(key, entry)
            while self._bytes > _MAX_BYTES:
                self._bytes -= _weight(*self._entries.popitem(last=False))


Key = tuple[str, str, tuple[str, ...], bool, str]


def cache_key(source: str, entry: str, imports: tuple[str, ...], safe_mode: bool, expect: Any) -> Key:
    """The source itself and all else that the compiler is told. A string remembers its hash: no digest for each call.

    Bytecode and policy have one version in a process, and the cache lives no longer than that.
    """
    return source, entry, imports, safe_mode, repr(expect) if expect else ""


def _weight(key: Key, entry: Compiled) -> int:
    return 1000 + sys.getsizeof(key[0]) + len(entry.bytecode)
