"""The child's side of the job socket: frames with a type byte, a length, and JSON (a job also
contains bytecode).
"""

from __future__ import annotations

import json
import os
import select
import struct
import sys
from collections.abc import Callable
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from json.scanner import c_make_scanner  # type: ignore[attr-defined]
from typing import Any

JOB_SOCKET = 3
# Digits of a whole number, as the host reads it.
MOST_DIGITS = 4300
_CHUNK = 1 << 14
HEADER = struct.Struct("<cI")
REPLY, CALLS, NOTICE, ANSWERS, JOB = b"R", b"C", b"N", b"A", b"J"
_Read = Callable[[int, int], bytes]
_Write = Callable[[int, bytes], int]
# The C functions behind json.loads and json.dumps, created once: the Python functions create new ones for each call
# and touch pages that each new child would have to copy.
_scan = c_make_scanner(json.JSONDecoder())
_chunks = c_make_encoder(
    None, json.JSONEncoder().default, encode_basestring_ascii, None, ": ", ", ", False, False, False
)


def read_json(payload: bytes) -> Any:
    """A value sent by the host: JSON without surrounding white space."""
    return _scan(payload.decode(), 0)[0]


def write_json(value: Any) -> bytes:
    """Raises TypeError for types that JSON lacks, ValueError for NaN and numbers of more than 4,300 digits,
    RecursionError for a value that contains itself.
    """
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MOST_DIGITS)
    try:
        return "".join(_chunks(value, 0)).encode()
    finally:
        sys.set_int_max_str_digits(before)


class Channel:
    """Blocking reads and writes; `sending` tells the alarm handler that a frame is partly sent.

    read and write are those of `os`, except during a rehearsal.
    """

    def __init__(self, read: _Read = os.read, write: _Write = os.write) -> None:
        self.sending = False
        self._buffer = b""
        self._take, self._give = read, write

    def send(self, kind: bytes, payload: bytes) -> None:
        self.sending = True
        data = HEADER.pack(kind, len(payload)) + payload
        sent = self._give(JOB_SOCKET, data)
        while sent < len(data):
            sent += self._give(JOB_SOCKET, data[sent:])
        self.sending = False

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame's type and payload; an empty type means that the host closed the socket."""
        data = self._buffer or self._take(JOB_SOCKET, _CHUNK)
        if len(data) >= HEADER.size:
            kind, length = HEADER.unpack_from(data)
            if len(data) == HEADER.size + length:
                # Usually one complete frame arrives.
                self._buffer = b""
                return kind, data[HEADER.size :]
        self._buffer = data
        header = self._read(HEADER.size)
        if len(header) < HEADER.size:
            return b"", b""
        kind, length = HEADER.unpack(header)
        return kind, self._read(length)

    def answers(self, timeout_s: float | None = None) -> list[Any]:
        """The host's answers, or an empty list if the time ran out. Rows are [number, succeeded,
        value].
        """
        if timeout_s is not None and not self._buffer and not readable(timeout_s):
            return []
        kind, payload = self.receive()
        if kind != ANSWERS:
            # The host closed the socket.
            os._exit(71)
        answers: list[Any] = read_json(payload)
        return answers

    def _read(self, length: int) -> bytes:
        while len(self._buffer) < length:
            part = self._take(JOB_SOCKET, max(length - len(self._buffer), _CHUNK))
            if not part:
                break
            self._buffer += part
        data, self._buffer = self._buffer[:length], self._buffer[length:]
        return data


def readable(timeout_s: float) -> bool:
    """Whether the host sent something within this time."""
    poller = select.poll()
    poller.register(JOB_SOCKET, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))
