"""The sandbox object: fork servers by profile, spare children, a bounded number of calls at once."""

from __future__ import annotations

import base64
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .callbacks import Callbacks
from .cancellation import Cancellation
from .codecache import CodeCache, Compiled, cache_key
from .conversation import Conversation
from .ending import Ending
from .forkserver import Child, ForkServer, NoChild, SandboxUnavailable
from .kept import KeptChild, KeptChildren, Key
from .limits import Limits
from .orders import BadArguments, call_order, encoded, first_job, next_job
from .outcome import FunctionError, Outcome, Refusal
from .slots import Slots

_COMPILE_LIMITS = Limits(timeout_s=10, cpu_s=3, memory_mb=256, output_kb=2048, printed_kb=1)
_SPARES_MAX, _COMPILER_SPARES = 16, 1
_ROTATE_CALLS, _ROTATE_S = 10_000, 15 * 60
_UNREAD_ENDINGS = 8
_TOO_MUCH = "compile-limit"
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """Runs functions, each in a child of its own. Any number of threads may use one pool at once.

    Fork servers start when first needed. `spares` children wait ready per profile; at most `at_once` calls run (half of
    that for one owner), others queue in order of arrival for up to `queue_s` seconds and are then answered `busy`.
    `without_layers` and `run_regardless` are for measuring and tests; the isolation that is left is in each outcome.
    """

    def __init__(
        self,
        *,
        spares: int = 4,
        at_once: int = 16,
        queue_s: float = 10.0,
        without_layers: Iterable[str] = (),
        run_regardless: bool = False,
    ) -> None:
        self.spares = min(max(spares, 0), _SPARES_MAX)
        self._at_once, self._queue_s = at_once, queue_s
        self._without, self._run_regardless = frozenset(without_layers), run_regardless
        self._cache = CodeCache()
        self._refusal = ""
        self._start_afresh()
        _pools.add(self)

    def _start_afresh(self) -> None:
        self._lock = threading.Lock()
        self._slots = Slots(self._at_once, max(1, self._at_once // 2))
        self._servers: dict[str, ForkServer] = {}
        self._backoff: dict[str, tuple[float, float]] = {}
        self._kept = KeptChildren()
        self._unread: deque[Ending] = deque()

    # The public verbs

    def check(
        self, source: str, allowed_imports: Iterable[str] = (), entry: str = "main", *, safe_mode: bool = True,
        is_async: bool | None = None, requires_context: bool | None = None, input_schema: Any = None,
        owner: str | None = None,
    ) -> list[Refusal]:  # fmt: skip
        """What is wrong with a source; empty when it is accepted. Flags and schema are compared with it when given.

        Raises SandboxUnavailable where nothing can be compiled (see `manage.py doctor`), NoChild when it is too busy.
        """
        expect = {"is_async": is_async, "requires_context": requires_context, "input_schema": input_schema}
        return list(self._compile(source, entry, _sorted(allowed_imports), safe_mode, expect, owner).refusals)

    def execute(
        self, source: str, arguments: Mapping[str, Any] | None = None, *, entry: str = "main",
        allowed_imports: Iterable[str] = (), safe_mode: bool = True, limits: Limits | None = None,
        context: Mapping[str, Any] | None = None, grants: Mapping[str, Callable[..., Any]] | None = None,
        host: Any = None, min_isolation: str = "reduced", reuse: str | None = None, owner: str | None = None,
        cancellation: Cancellation | None = None,
    ) -> Outcome:  # fmt: skip
        """Compile (or recall) the source, call its entry with the arguments as keywords, say how it ended.

        grants: by name, what ctx.call() may reach: a dict of arguments in, JSON out. host: an object with any of
        log(message, level, fields), progress(done, total, message), kv_get(key), kv_set(key, value), http(request).
        reuse: a run's id; calls of the same source with the same limits and id share one process (see release).
        owner: whoever it is for; one owner never gets more than half of what runs at once.
        """
        limits = limits or _USUAL_LIMITS
        try:
            compiled = self._compile(source, entry, _sorted(allowed_imports), safe_mode, None, owner)
            if compiled.refusals:
                return _refused(compiled.refusals)
            order = call_order(arguments, context, limits)
            call = _Call(compiled, order, limits, Callbacks(grants, host, limits), min_isolation, cancellation)
            self._slots.take(self._queue_s, owner)
            try:
                return self._call(call) if reuse is None else self._call_kept((reuse, owner, compiled, limits), call)
            finally:
                self._slots.give_back(owner)
        except BadArguments as error:
            return Outcome(status="refused", error=FunctionError("BadArguments", str(error)))
        except NoChild as error:
            return Outcome(status="busy", error=FunctionError("Busy", str(error)))
        except SandboxUnavailable as error:
            told = FunctionError("SandboxUnavailable", str(error))
            return Outcome(status="refused", error=told, layers=error.layers)

    def release(self, reuse: str) -> None:
        """A run has ended: its kept children end too."""
        self._kept.release(reuse)

    def refuse_everything(self, reason: str) -> None:
        """From now on nothing runs here: the self-test has found that the boundary does not hold."""
        self._refusal = reason
        self.close()

    def close(self) -> None:
        """End every fork server, and with them whatever still runs. A later call starts new ones."""
        self._kept.release()
        with self._lock:
            servers, self._servers = list(self._servers.values()), {}
        for server in servers:
            server.close()
        while self._unread:
            self._unread.popleft().usage()

    # Compiling

    def _compile(
        self, source: str, entry: str, imports: tuple[str, ...], safe_mode: bool, expect: dict[str, Any] | None,
        owner: str | None,
    ) -> Compiled:  # fmt: skip
        key = cache_key(source, entry, imports, safe_mode, expect)
        known = self._cache.get(key)
        if known is None:
            question = {"entry": entry, "imports": imports, "safe_mode": safe_mode}
            known = self._compile_in_child(question, {"source": source, "expect": expect}, owner)
            if not (known.refusals and known.refusals[0].code == _TOO_MUCH):  # a busy machine may be to blame
                self._cache.put(key, known)
        return known

    def _compile_in_child(self, question: dict[str, Any], more: dict[str, Any], owner: str | None) -> Compiled:
        try:
            order = encoded(question | more)
        except BadArguments as error:
            return Compiled(refusals=(_whole("syntax", f"cannot be read: {error}", "Send the source as text."),))
        call = _Call(_COMPILER, order, _COMPILE_LIMITS, Callbacks(None, None, _COMPILE_LIMITS), "reduced", None)
        self._slots.take(self._queue_s, owner)
        try:
            outcome = self._call(call)
        finally:
            self._slots.give_back(owner)
        if outcome.status == "refused":
            raise SandboxUnavailable(outcome.error.message if outcome.error else "no compiler", outcome.layers)
        if outcome.error and outcome.error.type == "SandboxLost":
            raise NoChild("the compiler was stopped from outside; try again")
        if outcome.status != "ok":
            hint = "Split the source into smaller functions."
            return Compiled(refusals=(_whole(_TOO_MUCH, f"compiling it took too much ({outcome.status})", hint),))
        return _compiled(outcome.result, question)

    # Calling

    def _call(self, call: _Call) -> Outcome:
        server, child = self._take(call.compiled.profile)
        conversation, outcome = Conversation(child, call.limits, server), None
        job = first_job(call.compiled, call.limits, call.order, keep=False)
        try:
            outcome = self._too_little(server, call) or self._converse(
                conversation, call, job, meanwhile=self._read_endings
            )
        finally:
            if outcome is None or outcome.ending is None:
                child.kill()
            self._unread.append(conversation.ending)
            server.leave()
        self._refill(server)
        return outcome

    def _call_kept(self, key: Key, call: _Call) -> Outcome:
        kept = self._kept.take(key)
        is_new = kept is None
        if kept is None:
            kept = KeptChild(key, *self._take(call.compiled.profile))
        refusal = self._too_little(kept.server, call)
        if refusal is not None:
            kept.end()
            return refusal
        job = first_job(call.compiled, call.limits, call.order, keep=True) if is_new else next_job(call.order)
        outcome = self._converse_with(kept, call, job)
        if is_new:
            self._refill(kept.server)
        elif kept.conversation.has_gone:
            return self._call_kept(key, call)  # it died while it was idle
        return outcome

    def _converse_with(self, kept: KeptChild, call: _Call, job: bytes) -> Outcome:
        kept.calls += 1
        try:
            outcome = self._converse(kept.conversation, call, job, keep=True)
        except BaseException:
            kept.end()
            raise
        if outcome.ending is not None:
            kept.server.leave()
        elif outcome.status in ("ok", "error"):
            self._kept.put(kept)
        else:
            kept.end()
        return outcome

    def _converse(
        self, conversation: Conversation, call: _Call, job: bytes, *, keep: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Outcome:  # fmt: skip
        if call.cancellation is not None:
            call.cancellation.attach(conversation.cancel)
        try:
            is_alone = self._slots.is_single
            return conversation.run(job, call.callbacks, keep=keep, is_alone=is_alone, meanwhile=meanwhile)
        finally:
            if call.cancellation is not None:
                call.cancellation.attach(None)
            call.callbacks.close()

    def _too_little(self, server: ForkServer, call: _Call) -> Outcome | None:
        if self._run_regardless or server.isolation == "full":
            return None
        if server.isolation == "reduced" and call.min_isolation != "full":
            return None
        message = f"isolation here is {server.isolation!r}, needed is {call.min_isolation!r}; see `manage.py doctor`"
        error = FunctionError("Isolation", message)
        return Outcome(status="refused", error=error, isolation=server.isolation, layers=server.layers)

    def _read_endings(self) -> None:
        """Take in the reports that nobody has asked for, so that their descriptors do not pile up."""
        while len(self._unread) > _UNREAD_ENDINGS:
            try:
                ending = self._unread.popleft()
            except IndexError:
                return  # another thread was faster
            if not ending.is_in():
                self._unread.append(ending)  # a caller waits: look again another time
                return
            ending.usage()

    # Fork servers

    def _take(self, profile: str) -> tuple[ForkServer, Child]:
        """A child of the profile's server, or of a new server if the old one has gone."""
        for is_last_try in (False, True):
            server = self._server(profile)
            server.enter()
            try:
                return server, server.take(self._queue_s)
            except SandboxUnavailable:
                server.leave()
                self._drop(server)
                if is_last_try:
                    raise
            except NoChild:
                server.leave()
                raise
        raise AssertionError("unreachable")

    def _server(self, profile: str) -> ForkServer:
        server = self._servers.get(profile)
        if server is not None:
            return server  # without the lock: another profile's server may just be starting, which takes its time
        with self._lock:
            if self._refusal:
                raise SandboxUnavailable(self._refusal)
            server = self._servers.get(profile)
            if server is not None:
                return server
            not_before, pause = self._backoff.get(profile, (0.0, 0.25))
            if time.monotonic() < not_before:
                raise SandboxUnavailable(f"the {profile} fork server failed to start; it is tried again shortly")
            try:
                server = self._servers[profile] = ForkServer(profile, without=self._without)
            except SandboxUnavailable:
                self._backoff[profile] = (time.monotonic() + pause, min(pause * 2, 30.0))
                raise
            self._backoff.pop(profile, None)
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
            server.order(_COMPILER_SPARES if server.profile == "compiler" else self.spares)
        except SandboxUnavailable:
            self._drop(server)

    def _after_fork(self) -> None:
        """In a forked copy of the host: the processes belong to the original."""
        for server in self._servers.values():
            server.forget()
        self._start_afresh()


class _Call:
    """One call's parts, on their way through the pool."""

    __slots__ = ("compiled", "order", "limits", "callbacks", "min_isolation", "cancellation")

    def __init__(
        self, compiled: Compiled, order: bytes, limits: Limits, callbacks: Callbacks, min_isolation: str,
        cancellation: Cancellation | None,
    ) -> None:  # fmt: skip
        self.compiled = compiled
        self.order = order
        self.limits = limits
        self.callbacks = callbacks
        self.min_isolation = min_isolation
        self.cancellation = cancellation


_COMPILER = Compiled(profile="compiler", order=b'"operation": "compile"')
_USUAL_LIMITS = Limits()


def _sorted(imports: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(imports))) if imports else ()


def _compiled(reply: Any, question: dict[str, Any]) -> Compiled:
    """What the compiler child said, in our own types. Its bytecode is kept as bytes and never loaded here."""
    try:
        refusals = tuple(_refusal(row) for row in reply["refusals"])
        if refusals:
            return Compiled(refusals=refusals)
        bytecode = base64.b64decode(reply["bytecode"], validate=True)
    except (TypeError, ValueError, LookupError):
        return Compiled(refusals=(_whole(_TOO_MUCH, "the compiler's answer was not one", "Simplify the source."),))
    profile = "extended" if reply.get("profile") == "extended" else "core"
    learnt = {name: reply.get(name) is True for name in ("is_async", "takes_ctx")}
    order = encoded(question | learnt | {"operation": "run"})[1:-1]
    return Compiled((), bytecode, profile, order)


def _refusal(row: Any) -> Refusal:
    line, column, end_line, end_column = (
        max(int(row[name]), 1) for name in ("line", "column", "end_line", "end_column")
    )
    code, message, hint = (str(row[name]) for name in ("code", "message", "hint"))
    return Refusal(code, message, hint, line, column, end_line, end_column)


def _whole(code: str, message: str, hint: str) -> Refusal:
    return Refusal(code, message, hint, 1, 1, 1, 1)


def _refused(refusals: tuple[Refusal, ...]) -> Outcome:
    first = refusals[0]
    error = FunctionError("Refused", f"line {first.line}: {first.message}", first.line)
    return Outcome(status="refused", error=error, refusals=refusals)


def _forget_after_fork() -> None:
    for pool in _pools:
        pool._after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)
