"""The host's end of the job socket. Every frame from a child is hostile until it has been read here."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

HEADER = struct.Struct("<cI")
REPLY, CALLS, NOTICE, ANSWERS, JOB = b"R", b"C", b"N", b"A", b"J"
_KNOWN = frozenset({REPLY, CALLS, NOTICE})
_CHUNK = 1 << 16  # below the size for which malloc would map and unmap memory on every call


class HostileFrame(Exception):
    """The child sent something that the protocol does not have. Kill it."""


class Frames:
    """Puts together what arrives on the socket in pieces."""

    def __init__(self, sock: socket.socket, *, largest_reply: int, largest_call: int) -> None:
        self._socket = sock
        self._sizes = {REPLY: largest_reply, CALLS: largest_call, NOTICE: largest_call}
        self._buffer = bytearray()
        self.ended = False

    def read(self) -> list[tuple[bytes, bytes]]:
        """Take what is there, without waiting. Raises HostileFrame."""
        try:
            data = self._socket.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except ConnectionError:
            data = b""
        if not data:
            self.ended = True
            return []
        self._buffer += data
        return list(self._complete())

    def _complete(self) -> Any:
        while len(self._buffer) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._buffer)
            if kind not in _KNOWN:
                raise HostileFrame("unknown frame")
            if length > self._sizes[kind]:
                raise HostileFrame("frame too large")
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield kind, payload


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)  # made once: json.loads would make one for each call


def read_json(payload: bytes, max_depth: int = 70) -> Any:
    """JSON from a child. Raises HostileFrame for anything that a database could not store or a reader survive."""
    try:
        value = _decoder.decode(payload.decode())
    except (ValueError, RecursionError, UnicodeError) as error:
        raise HostileFrame(f"not JSON: {type(error).__name__}") from None
    if payload.count(b"[") + payload.count(b"{") > max_depth:
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


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame, ready to send."""
    return HEADER.pack(kind, len(payload)) + payload


def job_frame(bytecode: bytes, order: bytes) -> bytes:
    """A job: the bytecode's length, the bytecode, the order as JSON."""
    return frame(JOB, len(bytecode).to_bytes(4, "little") + bytecode + order)
