"""Serving what a function asks of the host. Names resolve only in the table made for this one call."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import wire
from .limits import Limits

_AT_ONCE = 10
_MAX_NOTICES = 10_000
_MAX_REFUSED = 10_000  # calls beyond the limit, before a function that ignores the answer is killed


class Callbacks:
    """The grants and the host of one call.

    One request at a time is served on the caller's own thread; several asked for together run on threads of their own.
    A host callable cannot be interrupted: the call's time limit is enforced as soon as it returns.
    """

    # What most calls never change stays on the class.
    _threads: ThreadPoolExecutor | None = None
    _notices = 0
    _wake: int | None = None
    count = 0
    wakeup: int | None = None

    def __init__(self, grants: Mapping[str, Callable[..., Any]] | None, host: Any, limits: Limits) -> None:
        self._grants = grants or {}
        self._host = host
        self._limits = limits

    def close(self) -> None:
        """After the call: answers still on their way go nowhere."""
        if self._threads is None:
            return
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._closing:
            wake, self._wake = self._wake, None
            for descriptor in (self.wakeup, wake):
                if descriptor is not None:
                    os.close(descriptor)

    def serve(self, message: Any) -> bytes | None:
        """Answers to a frame of requests, or None when they follow from threads. Raises HostileFrame."""
        requests = _checked_requests(message)
        self.count += len(requests)
        if self.count > self._limits.max_calls + _MAX_REFUSED:
            raise wire.HostileFrame("it goes on calling")
        if self.count > self._limits.max_calls:
            refusal = f"a function may make {self._limits.max_calls} calls"
            return _encoded([[number, False, refusal] for number, _, _ in requests], self._limits)
        if len(requests) == 1:
            return _encoded([self._perform(*requests[0])], self._limits)
        if self._threads is None:
            self._done: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
            self._closing = threading.Lock()  # a late thread must not write into a descriptor that was given away
            self.wakeup, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sandbox-callback")
        for request in requests:
            self._threads.submit(self._perform_apart, request)
        return None

    def finished(self) -> bytes:
        """Answers that threads have ready."""
        assert self.wakeup is not None
        os.read(self.wakeup, 4096)
        rows = []
        while not self._done.empty():
            rows.append(self._done.get())
        return _encoded(rows, self._limits)

    @property
    def takes_notices(self) -> bool:
        """False once there were so many that no more are read: a function must not spend the host's time."""
        return self._notices < _MAX_NOTICES

    def notice(self, message: Any) -> None:
        """log and progress: nothing is answered. Raises HostileFrame."""
        self._notices += 1
        if not (isinstance(message, list) and len(message) == 2 and isinstance(message[1], dict)):
            raise wire.HostileFrame("not a notice")
        operation, payload = message
        action = getattr(self._host, operation, None) if operation in ("log", "progress") else None
        if action is None:
            return
        try:
            action(**_notice_arguments(operation, payload))
        except Exception:  # noqa: BLE001 - a host that cannot take a log line must not end the function
            return

    def _perform_apart(self, request: tuple[int, str, dict[str, Any]]) -> None:
        self._done.put(self._perform(*request))
        with self._closing:
            if self._wake is not None:
                os.write(self._wake, b"1")

    def _perform(self, number: int, operation: str, payload: dict[str, Any]) -> list[Any]:
        try:
            return [number, True, self._dispatch(operation, payload)]
        except Exception as error:  # noqa: BLE001 - whatever the host raises becomes the function's CallFailed
            return [number, False, str(error) or type(error).__name__]

    def _dispatch(self, operation: str, payload: dict[str, Any]) -> Any:
        if operation == "call":
            return self._call(payload)
        action = getattr(self._host, operation, None) if operation in ("http", "kv_get", "kv_set") else None
        if action is None:
            raise LookupError(f"ctx.{operation} is not available to this function")
        if operation == "http":
            return action(payload)
        if not isinstance(payload.get("key"), str):
            raise TypeError("the key must be a string")
        return action(payload["key"]) if operation == "kv_get" else action(payload["key"], payload.get("value"))

    def _call(self, payload: dict[str, Any]) -> Any:
        name, arguments = payload.get("name"), payload.get("arguments")
        if not isinstance(name, str) or name not in self._grants:
            known = ", ".join(sorted(self._grants)) or "none"
            raise LookupError(f"{str(name)[:100]!r} is not granted to this function (granted: {known})")
        if not isinstance(arguments, dict):
            raise TypeError("the arguments must be an object")
        return self._grants[name](arguments)


def _notice_arguments(operation: str, payload: dict[str, Any]) -> dict[str, Any]:
    if operation == "progress":
        return {
            "done": payload.get("done"),
            "total": payload.get("total"),
            "message": str(payload.get("message", ""))[:500],
        }
    fields = payload.get("fields")
    return {"message": str(payload.get("message", ""))[:4000], "level": str(payload.get("level", "info"))[:20],
            "fields": fields if isinstance(fields, dict) else {}}  # fmt: skip


def _checked_requests(message: Any) -> list[tuple[int, str, dict[str, Any]]]:
    if not isinstance(message, list) or not message or len(message) > 1000:
        raise wire.HostileFrame("not a list of requests")
    for row in message:
        if not (isinstance(row, list) and len(row) == 3):
            raise wire.HostileFrame("not a request")
        number, operation, payload = row
        if type(number) is not int or not isinstance(operation, str) or not isinstance(payload, dict):
            raise wire.HostileFrame("not a request")
    return [tuple(row) for row in message]


def _encoded(rows: list[Any], limits: Limits) -> bytes:
    parts = []
    for number, succeeded, value in rows:
        try:
            part = wire.write_json([number, succeeded, value])
        except (TypeError, ValueError, RecursionError) as error:
            part = json.dumps([number, False, f"the host's answer is not JSON: {error}"])
        if len(part) > limits.call_kb * 1024:
            part = json.dumps([number, False, f"the answer is larger than {limits.call_kb} kB"])
        parts.append(part)
    return f"[{','.join(parts)}]".encode()
