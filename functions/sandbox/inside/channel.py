"""The child's end of the job socket: frames of one type byte, a length, and JSON (or, for a job, also bytecode)."""

from __future__ import annotations

import json
import os
import select
import struct
from typing import Any

JOB_SOCKET = 3
HEADER = struct.Struct("<cI")
REPLY, CALLS, NOTICE, ANSWERS, JOB = b"R", b"C", b"N", b"A", b"J"


class Channel:
    """Blocking reads and writes; `sending` tells the alarm handler that a frame is half-way out."""

    def __init__(self) -> None:
        self.sending = False
        self._buffer = b""

    def send(self, kind: bytes, payload: bytes) -> None:
        self.sending = True
        data = memoryview(HEADER.pack(kind, len(payload)) + payload)
        while data:
            data = data[os.write(JOB_SOCKET, data) :]
        self.sending = False

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame's type and payload; an empty type means that the host has gone."""
        header = self._read(HEADER.size)
        if len(header) < HEADER.size:
            return b"", b""
        kind, length = HEADER.unpack(header)
        return kind, self._read(length)

    def call(self, requests: list[Any]) -> None:
        self.send(CALLS, json.dumps(requests).encode())

    def answers(self, timeout_s: float | None = None) -> list[Any]:
        """What the host answered, or nothing when the time is over first. Rows are [number, succeeded, value]."""
        if timeout_s is not None and not self._buffer and not _readable(timeout_s):
            return []
        kind, payload = self.receive()
        if kind != ANSWERS:
            os._exit(71)  # the host is gone
        answers: list[Any] = json.loads(payload)
        return answers

    def _read(self, length: int) -> bytes:
        while len(self._buffer) < length:
            part = os.read(JOB_SOCKET, max(length - len(self._buffer), 1 << 14))
            if not part:
                break
            self._buffer += part
        data, self._buffer = self._buffer[:length], self._buffer[length:]
        return data


def _readable(timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(JOB_SOCKET, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))
