"""What a child is told to do, as JSON. What does not change from call to call is encoded once."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from .codecache import Compiled
from .limits import Limits
from .wire import write_json


class BadArguments(Exception):
    """The arguments or the context cannot be sent. The message says why."""


def run_order(
    compiled: Compiled, entry: str, imports: tuple[str, ...], safe_mode: bool, limits: Limits,
    arguments: Mapping[str, Any] | None, context: Mapping[str, Any] | None, *, keep: bool,
) -> bytes:  # fmt: skip
    """The order for one call. Raises BadArguments."""
    fixed = _fixed(entry, imports, safe_mode, limits, compiled.is_async, compiled.takes_ctx, keep)
    changing = _encoded({"arguments": dict(arguments or {}), "context": context})
    if len(changing) > limits.input_kb * 1024:
        raise BadArguments(
            f"the arguments are {len(changing) // 1024} kB of JSON; at most {limits.input_kb} may be sent"
        )
    return fixed + changing[1:]


def compile_order(question: dict[str, Any], limits: Limits) -> bytes:
    """The order for the compiler. Raises BadArguments."""
    return _encoded(question | _limit_fields(limits) | {"operation": "compile"})


@functools.lru_cache(maxsize=512)
def _fixed(
    entry: str, imports: tuple[str, ...], safe_mode: bool, limits: Limits, is_async: bool, takes_ctx: bool, keep: bool
) -> bytes:
    order = _limit_fields(limits) | {
        "operation": "run", "entry": entry, "imports": imports, "safe_mode": safe_mode, "is_async": is_async,
        "takes_ctx": takes_ctx, "keep": keep,
    }  # fmt: skip
    return json.dumps(order).encode()[:-1] + b","


def _limit_fields(limits: Limits) -> dict[str, Any]:
    return {
        "timeout_s": limits.timeout_s, "cpu_s": limits.cpu_seconds, "memory_bytes": limits.memory_mb << 20,
        "output_bytes": limits.output_kb << 10, "printed_chars": limits.printed_kb << 10,
    }  # fmt: skip


def _encoded(value: dict[str, Any]) -> bytes:
    try:
        return write_json(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadArguments(f"not JSON: {error}") from None
