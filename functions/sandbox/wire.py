"""The host's side of the job socket. Every frame from a child is untrusted until it has been
validated here.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from json.scanner import c_make_scanner  # type: ignore[attr-defined]
from typing import Any

HEADER = struct.Struct("<cI")
REPLY, CALLS, NOTICE, ANSWERS, JOB = b"R", b"C", b"N", b"A", b"J"
_KNOWN = frozenset({REPLY, CALLS, NOTICE})
# Below the size at which malloc would map and unmap memory on every call.
_CHUNK = 1 << 16


class HostileFrame(Exception):
    """The child sent something that violates the protocol. Kill it."""


class Frames:
    """Assembles frames from a non-blocking socket."""

    def __init__(self, descriptor: int, *, largest_reply: int, largest_call: int, most: int = 1 << 62) -> None:
        self._descriptor, self._most = descriptor, most
        self._sizes = {REPLY: largest_reply, CALLS: largest_call, NOTICE: largest_call}
        self.buffer = bytearray()
        self.ended = False
        # It ended before it had read everything that was sent.
        self.was_reset = False
        # Bytes received in this call.
        self.received = 0

    def read(self) -> list[tuple[bytes, bytes]]:
        """Read the available data without waiting. Raises HostileFrame."""
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return []
        except ConnectionError:
            data, self.was_reset = b"", True
        if not data:
            self.ended = True
            return []
        self.received += len(data)
        if self.received > self._most:
            raise HostileFrame("it sent more than a call may send")
        if not self.buffer and (only := self._only_frame(data)):
            return [only]
        self.buffer += data
        return list(self._complete())

    def _only_frame(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Usually one complete frame arrives, which need not be assembled."""
        if len(data) < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(data)
        if len(data) != HEADER.size + length or length > self._sizes.get(kind, -1):
            return None
        return kind, data[HEADER.size :]

    def _complete(self) -> Iterator[tuple[bytes, bytes]]:
        while len(self.buffer) >= HEADER.size:
            kind, length = HEADER.unpack_from(self.buffer)
            if kind not in _KNOWN:
                raise HostileFrame("unknown frame")
            if length > self._sizes[kind]:
                raise HostileFrame("frame too large")
            end = HEADER.size + length
            if len(self.buffer) < end:
                return
            payload = bytes(self.buffer[HEADER.size : end])
            del self.buffer[:end]
            yield kind, payload


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        # 1e999 is infinity, which databases cannot store.
        raise ValueError(text)
    return number


# The C scanner and encoder: json creates new ones for each call, and handles white space that children never send.
_scan = c_make_scanner(json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite))
_chunks = c_make_encoder(
    None, json.JSONEncoder().default, encode_basestring_ascii, None, ": ", ", ", False, False, False
)


def read_json(payload: bytes, max_depth: int = 70) -> Any:
    """JSON from a child. Raises HostileFrame for a value that a database cannot store or a reader
    cannot process.
    """
    try:
        text = payload.decode()
        value, end = _scan(text, 0)
    except (ValueError, RecursionError, StopIteration) as error:
        raise HostileFrame(f"not valid JSON: {type(error).__name__}") from None
    if end != len(text):
        raise HostileFrame("more than one JSON value")
    if len(payload) > max_depth and payload.count(b"[") + payload.count(b"{") > max_depth:
        _check_depth(value, max_depth)
    if b"\\u" in payload:
        _check_text(value)
    return value


def _check_depth(value: Any, max_depth: int) -> None:
    level = [value]
    for _ in range(max_depth + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return
        level = inner
    raise HostileFrame("nested too deeply")


def _check_text(value: Any) -> None:
    """Escapes can produce an unpaired surrogate, which databases cannot store."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise HostileFrame("broken text") from None


def write_json(value: Any) -> str:
    """JSON for a child. Raises TypeError, ValueError (NaN), RecursionError (a value that contains
    itself).
    """
    return "".join(_chunks(value, 0))


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame, ready to send."""
    return HEADER.pack(kind, len(payload)) + payload
