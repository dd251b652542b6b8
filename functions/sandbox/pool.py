"""The sandbox object: fork servers by profile, spare children, a bounded number of calls at once."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .callbacks import Callbacks
from .codecache import CodeCache, Compiled, cache_key
from .conversation import Conversation
from .forkserver import Child, ForkServer, NoChild, SandboxUnavailable
from .limits import Limits
from .outcome import FunctionError, Outcome, Refusal

_COMPILE_LIMITS = Limits(timeout_s=5, memory_mb=256, output_kb=1024, printed_kb=1)
_SPARES_MIN, _SPARES_MAX = 2, 16
_ROTATE_CALLS, _ROTATE_S = 10_000, 15 * 60
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """Runs functions, each in a child of its own. Any number of threads may use one pool at once.

    Fork servers start when first needed. `spares` children wait ready per profile; at most `at_once` calls run, others
    queue in order of arrival for up to `queue_s` seconds and are then answered `busy`.
    """

    def __init__(
        self, *, spares: int = 4, at_once: int = 16, queue_s: float = 10.0, without_layers: Iterable[str] = ()
    ) -> None:
        self.spares = min(max(spares, 0), _SPARES_MAX)
        self._queue_s = queue_s
        self._slots = Slots(at_once)
        self._without = frozenset(without_layers)
        self._servers: dict[str, ForkServer] = {}
        self._lock = threading.Lock()
        self._cache = CodeCache()
        self._backoff: dict[str, tuple[float, float]] = {}
        _pools.add(self)

    # The two public verbs

    def check(
        self, source: str, allowed_imports: Iterable[str] = (), entry: str = "main", *, safe_mode: bool = True,
        is_async: bool | None = None, requires_context: bool | None = None, input_schema: Any = None,
    ) -> list[Refusal]:  # fmt: skip
        """What is wrong with a source; empty when it is accepted. The three expectations are compared when given."""
        expect = {"is_async": is_async, "requires_context": requires_context, "input_schema": input_schema}
        return list(self._compile(source, entry, allowed_imports, safe_mode, expect).refusals)

    def execute(
        self, source: str, arguments: Mapping[str, Any] | None = None, *, entry: str = "main",
        allowed_imports: Iterable[str] = (), safe_mode: bool = True, limits: Limits | None = None,
        context: Mapping[str, Any] | None = None, grants: Mapping[str, Callable[..., Any]] | None = None,
        host: Any = None, min_isolation: str = "reduced",
    ) -> Outcome:  # fmt: skip
        """Compile (or recall) the source, call its entry with the arguments as keywords, say how it ended."""
        limits = limits or Limits()
        try:
            compiled = self._compile(source, entry, allowed_imports, safe_mode, {})
            if compiled.refusals:
                return _refused(compiled.refusals)
            order = _order(compiled, arguments, entry, allowed_imports, safe_mode, limits, context)
            if isinstance(order, Outcome):
                return order
            return self._call(compiled.profile, compiled.bytecode, order, limits, grants, host, min_isolation)
        except NoChild as error:
            return Outcome(status="busy", error=FunctionError("Busy", str(error)))
        except SandboxUnavailable as error:
            return Outcome(status="refused", error=FunctionError("SandboxUnavailable", str(error)))

    def close(self) -> None:
        """End every fork server, and with them whatever still runs."""
        with self._lock:
            servers, self._servers = list(self._servers.values()), {}
        for server in servers:
            server.close()

    # Compiling

    def _compile(
        self, source: str, entry: str, allowed_imports: Iterable[str], safe_mode: bool, expect: dict[str, Any]
    ) -> Compiled:
        imports = sorted(set(allowed_imports))
        question = {"source": source, "entry": entry, "imports": imports, "safe_mode": safe_mode, "expect": expect}
        key = cache_key(question)
        known = self._cache.get(key)
        if known is None:
            known = self._compile_in_child(question)
            self._cache.put(key, known)
        return known

    def _compile_in_child(self, question: dict[str, Any]) -> Compiled:
        order = question | _limit_fields(_COMPILE_LIMITS) | {"operation": "compile"}
        try:
            payload = json.dumps(order).encode()
        except (TypeError, ValueError) as error:
            return Compiled(refusals=(_whole("syntax", f"cannot be read: {error}", "Send the source as text."),))
        outcome = self._call("compiler", b"", payload, _COMPILE_LIMITS, None, None, "reduced")
        if outcome.status in ("busy", "refused"):
            raise NoChild(outcome.error.message if outcome.error else "no compiler")
        if outcome.status != "ok":
            hint = "Split the source into smaller functions."
            return Compiled(refusals=(_whole("compile-limit", f"compiling it took too much ({outcome.status})", hint),))
        return _compiled(outcome.result)

    # Calling

    def _call(
        self, profile: str, bytecode: bytes, order: bytes, limits: Limits, grants: Any, host: Any, min_isolation: str,
    ) -> Outcome:  # fmt: skip
        with self._slots.one(self._queue_s):
            server, child = self._take(profile)
            try:
                refusal = _too_little_isolation(server, min_isolation)
                if refusal is not None and not self._without:
                    return refusal
                return self._converse(server, child, bytecode, order, limits, grants, host)
            finally:
                child.close()
                server.leave()
                self._refill(server)

    def _converse(
        self, server: ForkServer, child: Child, bytecode: bytes, order: bytes, limits: Limits, grants: Any, host: Any
    ) -> Outcome:
        callbacks = Callbacks(grants, host, limits)
        try:
            outcome = Conversation(child, limits, callbacks).run(bytecode, order)
        finally:
            callbacks.close()
        return outcome.on(server.isolation, server.layers)

    def _take(self, profile: str) -> tuple[ForkServer, Child]:
        """A child of the profile's server, of a new server if the old one has gone."""
        for attempt in (1, 2):
            server = self._server(profile)
            server.enter()
            try:
                return server, server.take(self._queue_s)
            except SandboxUnavailable:
                server.leave()
                self._drop(server)
                if attempt == 2:
                    raise
            except NoChild:
                server.leave()
                raise
        raise AssertionError("unreachable")

    def _server(self, profile: str) -> ForkServer:
        with self._lock:
            server = self._servers.get(profile)
            if server is not None:
                return server
            self._wait_out_backoff(profile)
            try:
                server = ForkServer(profile, without=self._without)
            except SandboxUnavailable:
                self._note_failure(profile)
                raise
            self._servers[profile] = server
            return server

    def _drop(self, server: ForkServer) -> None:
        with self._lock:
            if self._servers.get(server.profile) is server:
                del self._servers[server.profile]
        server.retire()

    def _refill(self, server: ForkServer) -> None:
        """After the answer is there, not before: making spares competes with the caller."""
        if server.taken >= _ROTATE_CALLS or time.monotonic() - server.started_at > _ROTATE_S:
            self._drop(server)  # one zygote is one hash seed and one address layout
            return
        try:
            server.order(self.spares if server.profile != "compiler" else min(self.spares, 1))
        except SandboxUnavailable:
            self._drop(server)

    def _wait_out_backoff(self, profile: str) -> None:
        not_before, _ = self._backoff.get(profile, (0.0, 0.0))
        if time.monotonic() < not_before:
            raise SandboxUnavailable(f"the {profile} fork server failed to start; it is tried again shortly")

    def _note_failure(self, profile: str) -> None:
        _, pause = self._backoff.get(profile, (0.0, 0.25))
        self._backoff[profile] = (time.monotonic() + pause, min(pause * 2, 30.0))

    def _after_fork(self) -> None:
        for server in self._servers.values():
            server.forget()
        self._servers = {}
        self._lock = threading.Lock()
        self._slots = Slots(self._slots.size)


class Slots:
    """At most so many at once, first come first served."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = size
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    def one(self, timeout_s: float) -> _Slot:
        """Wait for a turn. Raises NoChild when none comes in time."""
        with self._lock:
            if self._free > 0 and not self._waiting:
                self._free -= 1
                return _Slot(self)
            turn = threading.Event()
            self._waiting.append(turn)
        if turn.wait(timeout_s):
            return _Slot(self)
        with self._lock:
            if turn.is_set():
                return _Slot(self)  # it came just now
            self._waiting.remove(turn)
        raise NoChild(f"{self.size} functions are running and none ended within {timeout_s:g} s")

    def give_back(self) -> None:
        """The next in line takes the turn over."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1


class _Slot:
    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        self._slots.give_back()


def _order(
    compiled: Compiled,
    arguments: Any,
    entry: str,
    imports: Iterable[str],
    safe_mode: bool,
    limits: Limits,
    context: Any,
) -> bytes | Outcome:
    order = _limit_fields(limits) | {
        "operation": "run", "entry": entry, "arguments": dict(arguments or {}), "context": context,
        "imports": sorted(set(imports)), "safe_mode": safe_mode, "is_async": compiled.is_async,
        "takes_ctx": compiled.takes_ctx,
    }  # fmt: skip
    try:
        payload = json.dumps(order, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return _bad_input(f"the arguments are not JSON: {error}")
    if len(payload) > limits.input_kb * 1024:
        return _bad_input(f"the arguments are {len(payload) // 1024} kB of JSON; at most {limits.input_kb} may be sent")
    return payload


def _limit_fields(limits: Limits) -> dict[str, Any]:
    return {
        "timeout_s": limits.timeout_s, "cpu_s": limits.cpu_seconds, "memory_bytes": limits.memory_mb << 20,
        "output_bytes": limits.output_kb << 10, "printed_chars": limits.printed_kb << 10,
    }  # fmt: skip


def _compiled(reply: Any) -> Compiled:
    """What the compiler child said, in our own types. Its bytecode is kept as bytes and never loaded here."""
    refusals = tuple(_refusal(row) for row in reply.get("refusals", []))
    if refusals:
        return Compiled(refusals=refusals)
    bytecode = base64.b64decode(str(reply.get("bytecode", "")))
    profile = "extended" if reply.get("profile") == "extended" else "core"
    return Compiled((), bytecode, profile, reply.get("is_async") is True, reply.get("takes_ctx") is True)


def _refusal(row: Any) -> Refusal:
    numbers = {name: max(int(row[name]), 1) for name in ("line", "column", "end_line", "end_column")}
    return Refusal(str(row["code"]), str(row["message"]), str(row["hint"]), **numbers)


def _whole(code: str, message: str, hint: str) -> Refusal:
    return Refusal(code, message, hint, 1, 1, 1, 1)


def _refused(refusals: tuple[Refusal, ...]) -> Outcome:
    first = refusals[0]
    error = FunctionError("Refused", f"line {first.line}: {first.message}", first.line)
    return Outcome(status="refused", error=error, refusals=refusals)


def _bad_input(message: str) -> Outcome:
    return Outcome(status="refused", error=FunctionError("BadArguments", message))


def _too_little_isolation(server: ForkServer, wanted: str) -> Outcome | None:
    if server.isolation == "full" or (server.isolation == "reduced" and wanted != "full"):
        return None
    message = f"this machine offers isolation {server.isolation!r}, needed is {wanted!r}; see `manage.py doctor`"
    return Outcome(status="refused", error=FunctionError("Isolation", message), isolation=server.isolation)


def _forget_after_fork() -> None:
    for pool in _pools:
        pool._after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)
