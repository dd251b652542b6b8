"""A cache of compiled functions by content: the same source, entry, imports and policy are compiled
only once.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from .outcome import Refusal

_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: it is part of a key that each call looks up
class Compiled:
    """Refusals, or bytecode that only a child may load, with the compiler's information about the
    entry.
    """

    refusals: tuple[Refusal, ...] = ()
    bytecode: bytes = b""
    profile: str = "core"
    order: bytes = b""  # the part that is sent to a child: JSON without braces


class CodeCache:
    """An LRU cache with at most 64 MB of sources and bytecode."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, Compiled] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Compiled | None:
        """The cached entry of the key, if any."""
        entry = self._entries.get(key)
        if entry is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:
                pass  # removed at this moment by another thread
        return entry

    def put(self, key: Key, entry: Compiled) -> None:
        """Store the entry, and remove the least recently used ones if the cache is too large."""
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = entry
            self._bytes += _weight(key, entry)
            while self._bytes > _MAX_BYTES:
                self._bytes -= _weight(*self._entries.popitem(last=False))


Key = tuple[str, str, tuple[str, ...], bool, str]


def cache_key(source: str, entry: str, imports: tuple[str, ...], safe_mode: bool, expect: Any) -> Key:
    """The cache key: the source and all other input of the compiler. Strings cache their hash, so
    no call computes a digest.

    Bytecode and policy have one version per process, and the cache lives only as long as the
    process.
    """
    return source, entry, imports, safe_mode, repr(expect) if expect else ""


def _weight(key: Key, entry: Compiled) -> int:
    return 1000 + sys.getsizeof(key[0]) + len(entry.bytecode)
