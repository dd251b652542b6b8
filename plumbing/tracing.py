"""The trace that a request belongs to, from its header `traceparent` (W3C Trace Context)."""

import re
from contextvars import ContextVar

PATTERN = re.compile("00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
# Of the request that this thread serves.
PARENT: ContextVar[str] = ContextVar("traceparent", default="")


def valid_header(header: str) -> str:
    """The header if it is valid, else an empty text: a trace then begins here."""
    return header if PATTERN.fullmatch(header) else ""


def parse_trace_parent(header: str) -> tuple[int, int, bool] | None:
    """(trace id, id of the caller's span, whether the caller records the trace)."""
    match = PATTERN.fullmatch(header)
    if match is None:
        return None
    trace_id = int(match[1], 16)
    span_id = int(match[2], 16)
    flags = int(match[3], 16)
    return trace_id, span_id, bool(flags & 1)
