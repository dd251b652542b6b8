"""The order for a child, as JSON. Parts that do not change between calls are encoded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .codecache import Compiled
from .limits import Limits
from .wire import JOB, frame, write_json


class BadArguments(Exception):
    """The arguments or the context cannot be sent. The message gives the reason."""


def call_order(arguments: Mapping[str, Any] | None, context: Mapping[str, Any] | None, limits: Limits) -> bytes:
    """The parts that differ between calls. Raises BadArguments."""
    values = arguments
    if type(values) is not dict:
        values = dict(values or {})
    order = encode_order({"arguments": values, "context": context})
    if len(order) > limits.input_kb * 1024:
        raise BadArguments(f"the arguments have {len(order) // 1024} kB of JSON; the maximum is {limits.input_kb} kB")
    return order


def first_job(compiled: Compiled, limits: Limits, order: bytes, *, keep: bool) -> bytes:
    """The complete frame for a new child: the bytecode's length, the bytecode, the order."""
    kept = b""
    if keep:
        kept = b'"keep": true, '
    whole = b"{%b%b, %b, %b" % (kept, compiled.order, limits.order, order[1:])
    size = len(compiled.bytecode).to_bytes(4, "little")
    return frame(JOB, size + compiled.bytecode + whole)


def next_job(order: bytes) -> bytes:
    """The frame for a kept child, which already has the other parts."""
    return frame(JOB, b"\0\0\0\0" + order)


def encode_order(value: dict[str, Any]) -> bytes:
    """JSON for a child. Raises BadArguments."""
    try:
        return write_json(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadArguments(f"not valid JSON: {error}") from None
