"""Serves a function's requests to the host. Names are resolved only in the table of this one call."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from binascii import a2b_base64, b2a_base64
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import wire
from .inside.host_traces import describe_failure
from .limits import Limits

log = logging.getLogger(__name__)

# Concurrent requests of one call.
_AT_ONCE = 10
# Bytes of an input file in one answer.
_PIECE = 4 << 20
_PACKAGE = __name__.partition(".")[0]
# Concurrent requests of all calls.
_THREADS = 32
Request = tuple[int, str, dict[str, Any]]


class Threads:
    """A limited number of threads, shared by all calls of this process."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.start_afresh()

    def start_afresh(self) -> None:
        """The initial state; also used in a forked copy of the host, which has none of its parent's
        threads.
        """
        self._executor = ThreadPoolExecutor(self._size, thread_name_prefix="sandbox-callback")
        self._free = threading.BoundedSemaphore(self._size)

    def start(self, work: Callable[[], None]) -> bool:
        """Run the work in a free thread; False if there is none."""
        if not self._free.acquire(blocking=False):
            return False
        self._executor.submit(self._do, work)
        return True

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._free.release()


threads = Threads(_THREADS)
os.register_at_fork(after_in_child=threads.start_afresh)


class Callbacks:
    """The grants and the host of one call.

    A single request is served on the caller's own thread. Several concurrent requests run on
    threads shared by all calls; if none is free, the caller's thread serves them one after another,
    so calls that wait for each other never wait for a thread. Work that a host does for a request
    must end with the call: `host.begin(deadline)` announces the deadline, `host.end()` the end.
    """

    # Values that most calls never change are class attributes.
    _notices = 0
    _parts_taken = 0
    _parts: dict[int, list[str]] | None = None
    _wake: int | None = None
    _queue: deque[Request] | None = None
    _done: queue.SimpleQueue[list[Any]]
    _at_work = 0
    count = 0
    wakeup: int | None = None

    def __init__(
        self, grants: Mapping[str, Callable[..., Any]] | None, host: Any, limits: Limits,
        loan: AbstractContextManager[None] | None = None,
    ) -> None:  # fmt: skip
        self._grants = grants or {}
        self._host = host
        self._limits = limits
        self._loan = loan or nullcontext()

    def begin(self, deadline: float) -> None:
        """Begin the call, which must end by this deadline (time.monotonic())."""
        begin = getattr(self._host, "begin", None)
        if begin is not None:
            begin(deadline)

    def stop(self) -> None:
        """End the host's work for the call; can be called from another thread."""
        end = getattr(self._host, "end", None)
        if end is not None:
            end()

    def close(self) -> None:
        """After the call: pending answers are discarded, and the host's remaining work is stopped."""
        self.stop()
        if self._queue is None:
            return
        with self._closing:
            self._queue.clear()
            wake, self._wake = self._wake, None
            for descriptor in (self.wakeup, wake):
                if descriptor is not None:
                    os.close(descriptor)

    def serve(self, message: Any) -> bytes | None:
        """The answers to a frame of requests; None if threads will provide them later. Raises
        HostileFrame.
        """
        requests = _checked_requests(message)
        self.count += len(requests)
        if self.count > self._limits.max_calls:
            # The child counts too, and raises an error at the limit.
            raise wire.HostileFrame("too many calls")
        if len(requests) == 1:
            return _encoded([self._perform(*requests[0])], self._limits)
        if self._hand_over(requests):
            return None
        return _encoded([self._perform(*request) for request in requests], self._limits)

    def finished(self) -> bytes:
        """Answers that threads have finished."""
        assert self.wakeup is not None
        os.read(self.wakeup, 4096)
        rows = []
        while not self._done.empty():
            rows.append(self._done.get())
        return _encoded(rows, self._limits)

    def notice(self, message: Any) -> None:
        """Handle log, progress and pieces of files, which have no answer. Raises HostileFrame."""
        if not (isinstance(message, list) and len(message) == 2 and isinstance(message[1], dict)):
            raise wire.HostileFrame("not a valid notice")
        operation, payload = message
        if operation == "file_part":
            self._take_part(payload)
            return
        self._notices += 1
        if self._notices > self._limits.max_notices:
            # The child drops those above the limit.
            raise wire.HostileFrame("too many log lines")
        action = getattr(self._host, operation, None) if operation in ("log", "progress") else None
        if action is None:
            return
        try:
            action(**_notice_arguments(operation, payload))
        except Exception:  # noqa: BLE001 - a host that cannot take a log line must not end the function
            return

    def _take_part(self, payload: dict[str, Any]) -> None:
        """The limit on all bytes of a call bounds the pieces; the limit on notices, their number."""
        number = payload.get("number")
        data = payload.get("data")
        self._parts_taken += 1
        if type(number) is not int or not isinstance(data, str) or self._parts_taken > self._limits.max_notices:
            raise wire.HostileFrame("not a valid piece of a file")
        if self._parts is None:
            self._parts = {}
        self._parts.setdefault(number, []).append(data)

    # Threads

    def _open(self) -> deque[Request]:
        if self._queue is None:
            self._queue, self._done = deque(), queue.SimpleQueue()
            # A late thread must not write to a descriptor that was closed and reused.
            self._closing = threading.Lock()
            self.wakeup, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        return self._queue

    def _hand_over(self, requests: list[Request]) -> bool:
        """Whether threads serve these; if not, none of them has begun, since no thread is free or at work.

        Decided under the lock: a thread that is about to finish could otherwise take a request that is then served
        here a second time.
        """
        pending = self._open()
        with self._closing:
            pending.extend(requests)
            while self._at_work < min(_AT_ONCE, len(pending)) and threads.start(self._work):
                self._at_work += 1
            if self._at_work:
                return True
            pending.clear()
            return False

    def _work(self) -> None:
        """In a thread: serve requests until none is left or the call has ended."""
        while (request := self._next()) is not None:
            self._done.put(self._perform(*request))
            with self._closing:
                if self._wake is not None:
                    os.write(self._wake, b"1")

    def _next(self) -> Request | None:
        with self._closing:
            if self._queue:
                return self._queue.popleft()
            self._at_work -= 1
            return None

    # One request

    def _perform(self, number: int, operation: str, payload: dict[str, Any]) -> list[Any]:
        try:
            if operation == "save_file":
                return [number, True, self._save_file(number, payload)]
            return [number, True, self._dispatch(operation, payload)]
        except Exception as error:  # noqa: BLE001 - whatever the host raises becomes the function's CallFailed
            return [number, False, _describe_for_function(error, operation)]

    def _dispatch(self, operation: str, payload: dict[str, Any]) -> Any:
        if operation == "call":
            return self._call(payload)
        if operation == "read_file":
            return self._read_file(payload)
        action = getattr(self._host, operation, None) if operation in ("http", "kv_get", "kv_set") else None
        if action is None:
            raise LookupError(f"ctx.{operation} is not available to this function")
        if operation == "http":
            return action(payload)
        if not isinstance(payload.get("key"), str):
            raise TypeError("the key must be a string")
        return action(payload["key"]) if operation == "kv_get" else action(payload["key"], payload.get("value"))

    def _save_file(self, number: int, payload: dict[str, Any]) -> Any:
        # Pieces may have come before; the last one comes with the request.
        pieces = [*(self._parts or {}).pop(number, ()), payload.get("data")]
        save = getattr(self._host, "save_file", None)
        if save is None:
            raise LookupError("ctx.save_file is not available to this function")
        name = payload.get("name")
        media_type = payload.get("media_type")
        if not all(isinstance(text, str) for text in (name, media_type, *pieces)):
            raise TypeError("the name and the data of a file must be text")
        content = b"".join(a2b_base64(piece, strict_mode=True) for piece in pieces)
        return save(name, content, media_type)

    def _read_file(self, payload: dict[str, Any]) -> str:
        """A piece of an input file, as base64; empty at the end of the file."""
        read = getattr(self._host, "read_file", None)
        if read is None:
            raise LookupError("there are no files here")
        file = payload.get("file")
        offset = payload.get("offset")
        size = payload.get("size")
        if not isinstance(file, str) or type(offset) is not int or type(size) is not int or min(offset, size) < 0:
            raise TypeError("name a file, an offset and a size")
        content = read(file, offset, min(size, _PIECE))
        return b2a_base64(content, newline=False).decode()

    def _call(self, payload: dict[str, Any]) -> Any:
        name = payload.get("name")
        if not isinstance(name, str) or name not in self._grants:
            names = ", ".join(sorted(self._grants)) or "none"
            raise LookupError(f"{str(name)[:100]!r} is not granted to this function (granted: {names})")
        arguments = payload.get("arguments")
        if not isinstance(arguments, dict):
            raise TypeError("the arguments must be an object")
        with self._loan:
            return self._grants[name](arguments)


def _describe_for_function(error: Exception, operation: str) -> str:
    """Why the host did not do it. Errors of databases and libraries name addresses, people and places of the host, so
    their texts are for the log alone.
    """
    package = type(error).__module__.partition(".")[0]
    if package in ("builtins", _PACKAGE) or hasattr(error, "code"):
        return describe_failure(error)
    log.error("ctx.%s failed", operation, exc_info=error)
    return f"the host failed ({type(error).__name__})"


def _notice_arguments(operation: str, payload: dict[str, Any]) -> dict[str, Any]:
    message = str(payload.get("message", ""))
    if operation == "progress":
        return {"done": payload.get("done"), "total": payload.get("total"), "message": message[:500]}
    level = str(payload.get("level", "info"))
    fields = payload.get("fields")
    if not isinstance(fields, dict):
        fields = {}
    return {"message": message[:4000], "level": level[:20], "fields": fields}


def _checked_requests(message: Any) -> list[Request]:
    if not isinstance(message, list) or not message or len(message) > 1000:
        raise wire.HostileFrame("not a list of requests")
    for row in message:
        if not (isinstance(row, list) and len(row) == 3):
            raise wire.HostileFrame("not a valid request")
        number, operation, payload = row
        if type(number) is not int or not isinstance(operation, str) or not isinstance(payload, dict):
            raise wire.HostileFrame("not a valid request")
    return [tuple(row) for row in message]


def _encoded(rows: list[Any], limits: Limits) -> bytes:
    parts = []
    for number, succeeded, value in rows:
        try:
            part = wire.write_json([number, succeeded, value])
        except (TypeError, ValueError, RecursionError) as error:
            part = json.dumps([number, False, f"the host's answer is not valid JSON: {error}"])
        if len(part) > limits.answer_kb * 1024:
            part = json.dumps([number, False, f"the answer is larger than {limits.answer_kb} kB"])
        parts.append(part)
    return f"[{','.join(parts)}]".encode()
