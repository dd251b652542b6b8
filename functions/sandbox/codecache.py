"""Compiled functions by content: the same source, entry, imports and policy never compile twice."""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections import OrderedDict
from dataclasses import dataclass

from .limits import POLICY_VERSION
from .outcome import Refusal

_MAGIC = importlib.util.MAGIC_NUMBER.hex()
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Compiled:
    """Refusals, or bytecode that only a child may load, with what the compiler learnt about the entry."""

    refusals: tuple[Refusal, ...] = ()
    bytecode: bytes = b""
    profile: str = "core"
    is_async: bool = False
    takes_ctx: bool = False


class CodeCache:
    """Least recently used goes first once the bytecode weighs more than 64 MB."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Compiled] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> Compiled | None:
        """What is known under the key."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def put(self, key: str, entry: Compiled) -> None:
        """Remember it, and forget the oldest if that is too much."""
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = entry
            self._bytes += _weight(entry)
            while self._bytes > _MAX_BYTES:
                _, oldest = self._entries.popitem(last=False)
                self._bytes -= _weight(oldest)


def cache_key(source: str, *circumstances: object) -> str:
    """sha256 over the source, all else that the compiler is told, and the versions of bytecode and policy."""
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass"))
    digest.update(repr((_MAGIC, POLICY_VERSION, circumstances)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _weight(entry: Compiled) -> int:
    return 1000 + len(entry.bytecode)
