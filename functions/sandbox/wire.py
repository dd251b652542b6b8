"""The host's end of the job socket. Every frame from a child is hostile until it has been read here."""

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
_CHUNK = 1 << 16  # below the size for which malloc would map and unmap memory on every call


class HostileFrame(Exception):
    """The child sent something that the protocol does not have. Kill it."""


class Frames:
    """Puts together what arrives on a socket that never blocks."""

    def __init__(self, descriptor: int, *, largest_reply: int, largest_call: int, most: int = 1 << 62) -> None:
        self._descriptor, self._most = descriptor, most
        self._sizes = {REPLY: largest_reply, CALLS: largest_call, NOTICE: largest_call}
        self.buffer = bytearray()
        self.ended = False
        self.was_reset = False  # it ended before it had read all that was sent to it
        self.received = 0  # bytes, of this call

    def read(self) -> list[tuple[bytes, bytes]]:
        """Take what is there, without waiting. Raises HostileFrame."""
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
            raise HostileFrame("it sent more than its call may send")
        if not self.buffer and (only := self._only_frame(data)):
            return [only]
        self.buffer += data
        return list(self._complete())

    def _only_frame(self, data: bytes) -> tuple[bytes, bytes] | None:
        """What arrives is mostly one whole frame, and needs no putting together."""
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
        raise ValueError(text)  # 1e999 is infinity, which no database takes
    return number


# The C scanner and encoder: json makes new ones for each call, and looks for white space that no child sends.
_scan = c_make_scanner(json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite))
_chunks = c_make_encoder(
    None, json.JSONEncoder().default, encode_basestring_ascii, None, ": ", ", ", False, False, False
)


def read_json(payload: bytes, max_depth: int = 70) -> Any:
    """JSON from a child. Raises HostileFrame for anything that a database could not store or a reader survive."""
    try:
        text = payload.decode()
        value, end = _scan(text, 0)
    except (ValueError, RecursionError, StopIteration) as error:
        raise HostileFrame(f"not JSON: {type(error).__name__}") from None
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
    """Escapes can spell half of a surrogate pair, which no database takes."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise HostileFrame("broken text") from None


def write_json(value: Any) -> str:
    """JSON for a child. Raises TypeError, ValueError (NaN), RecursionError (it contains itself)."""
    return "".join(_chunks(value, 0))


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame, ready to send."""
    return HEADER.pack(kind, len(payload)) + payload
