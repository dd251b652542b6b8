"""Compiled functions, cached by content: the same source, entry, imports and policy are compiled only once."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from .outcome import Refusal


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: it is part of a key that each call looks up
class Compiled:
    """Refusals, or bytecode that only a child may load, with the compiler's information about the
    entry.
    """

    refusals: tuple[Refusal, ...] = ()
    bytecode: bytes = b""
    profile: str = "core"
    # The part that is sent to a child: JSON without braces.
    order: bytes = b""


CodeKey = tuple[str, str, tuple[str, ...], bool, str]


def cache_key(source: str, entry: str, imports: tuple[str, ...], safe_mode: bool, expect: Any) -> CodeKey:
    """The cache key: the source and all other input of the compiler. Strings cache their hash, so
    no call computes a digest.

    Bytecode and policy have one version per process, and the cache lives only as long as the
    process.
    """
    expected = ""
    if expect:
        expected = repr(expect)
    return source, entry, imports, safe_mode, expected


def measure_compiled(key: CodeKey, entry: Compiled) -> int:
    source_size = sys.getsizeof(key[0])
    return 1000 + source_size + len(entry.bytecode) + len(entry.order)
