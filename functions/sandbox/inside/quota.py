"""Limits on the requests of one call to the host. Exceeding a limit here raises an error that the
function can catch; the host counts as well, and kills a process that sends more than this module
allows.
"""

from __future__ import annotations

from typing import Any

from .channel import write_json

_MESSAGE_CHARS = 4000
_FIELDS_BYTES = 16 * 1024


class CallFailed(Exception):
    """The host refused a call, or the called tool failed."""


class Quota:
    """The limits of one call and their current use. The defaults equal those of the host's Limits."""

    __slots__ = ("_calls", "_notices", "_bytes", "_max_calls", "_max_notices", "_call_bytes", "_max_bytes", "_depth")

    def __init__(self, order: dict[str, Any]) -> None:
        self._calls = self._notices = self._bytes = 0
        self._max_calls: int = order.get("max_calls", 1000)
        self._max_notices: int = order.get("max_notices", 2000)
        self._call_bytes: int = order.get("call_kb", 256) << 10
        self._max_bytes: int = order.get("traffic_kb", 16 * 1024) << 10
        self._depth: int = order.get("max_depth", 64)

    def request(self, number: int, operation: str, payload: dict[str, Any]) -> bytes:
        """One request as JSON. Raises CallFailed if it exceeds a limit, TypeError and ValueError if
        it is not JSON.
        """
        if self._calls >= self._max_calls:
            raise CallFailed(f"a function can make at most {self._max_calls} calls")
        data = write_json([number, operation, payload])
        if len(data) > self._call_bytes - 16:
            raise CallFailed(f"this call has {len(data) >> 10} kB of JSON; the maximum is {self._call_bytes >> 10} kB")
        if self._bytes + len(data) > self._max_bytes:
            raise CallFailed(f"all calls of a function can have at most {self._max_bytes >> 20} MB of JSON in total")
        self._check(data, payload)
        self._calls += 1
        self._bytes += len(data)
        return data

    def notice(self, operation: str, payload: dict[str, Any]) -> bytes | None:
        """A log line or a progress report as JSON, truncated if too long; None if the number or the
        bytes exceed the limit.
        """
        if self._notices >= self._max_notices:
            return None
        payload["message"] = payload["message"][:_MESSAGE_CHARS].encode("utf-8", "replace").decode()
        data = write_json([operation, payload])
        if len(data) > _FIELDS_BYTES + _MESSAGE_CHARS * 12 and "fields" in payload:
            payload["fields"] = {"left_out": f"{len(data) >> 10} kB of fields"}
            data = write_json([operation, payload])
        self._check(data, payload)
        if self._bytes + len(data) > self._max_bytes:
            return None
        self._notices += 1
        self._bytes += len(data)
        return data

    def part(self, number: int, data: str) -> bytes:
        """A piece of the content of the request with this number, as JSON. Raises CallFailed."""
        part = write_json(["file_part", {"number": number, "data": data}])
        if self._bytes + len(part) > self._max_bytes:
            raise CallFailed(f"all calls of a function can have at most {self._max_bytes >> 20} MB of JSON in total")
        self._bytes += len(part)
        return part

    def batches(self, rows: list[bytes]) -> list[bytes]:
        """Concurrent requests, in as few frames as possible."""
        frames: list[list[bytes]] = [[]]
        size = 0
        for row in rows:
            size += len(row) + 1
            if size > self._call_bytes - 2 and frames[-1]:
                frames.append([])
                size = len(row) + 1
            frames[-1].append(row)
        return [b"[" + b",".join(frame) + b"]" for frame in frames]

    def _check(self, data: bytes, payload: dict[str, Any]) -> None:
        if data.count(b"[") + data.count(b"{") > self._depth:
            _check_depth(payload, self._depth)
        if b"\\ud" in data:
            _check_text(payload)


def _check_depth(value: Any, most: int) -> None:
    # Layer by layer, because a recursion would end where Python's stack does.
    layer = [value]
    for _ in range(most + 2):
        below: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list | tuple):
                below += item
        if not below:
            return
        layer = below
    raise ValueError(f"the sent value is nested deeper than {most} levels")


def _check_text(value: Any) -> None:
    """An unpaired surrogate is not valid text. Raises ValueError."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("the sent value contains an unpaired surrogate, which is not valid text") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_text(item)
