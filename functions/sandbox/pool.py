"""The sandbox object: fork servers by profile, spare children, and a limit on concurrent calls."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from cachetools import LRUCache

from .callbacks import Callbacks
from .cancellation import Cancellation
from .codecache import CodeKey, Compiled, cache_key, measure_compiled
from .compiling import (
    COMPILE_LIMITS,
    COMPILER,
    DOCUMENT_LIMITS,
    READ_LIMITS,
    READER,
    UNPACK_LIMITS,
    interpreter,
    is_too_much,
    parse_compiled,
    too_much,
    unreadable,
)  # fmt: skip
from .conversation import Conversation
from .ending import Ending
from .forkserver import ForkServer, NoChild, SandboxUnavailable
from .kept import KeptChild, KeptChildren, Key
from .libraries import CORE, FILES, NONE, Libraries, build_profile_name
from .limits import Limits
from .orders import BadArguments, call_order, encode_order, first_job, next_job
from .outcome import FunctionError, Outcome, Refusal
from .servers import MOST_WITH_LIBRARIES, ForkServers
from .slots import Loan, Slots

# For compiling and reading, in addition to running functions.
_READ_AT_ONCE = 4
# Retries of a call that did not begin because its process had ended: more than there can be dead spares.
_TRIES = 20
_UNREAD_ENDINGS = 8
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """Runs functions, each in its own child. Any number of threads can use a pool at the same time.

    Fork servers start when first needed. `spares` children wait ready per profile. At most
    `at_once` calls run (half of that for one owner); other calls queue in order of arrival for up
    to `queue_s` seconds and are then answered `busy`. `without_layers` and `run_regardless` are for
    measurements and tests; each outcome states the remaining isolation.
    """

    def __init__(
        self,
        *,
        spares: int = 4,
        at_once: int = 16,
        queue_s: float = 10.0,
        without_layers: Iterable[str] = (),
        run_regardless: bool = False,
        libraries: Libraries = NONE,
    ) -> None:
        self._at_once, self._queue_s = at_once, queue_s
        self._run_regardless = run_regardless
        self._servers = ForkServers(spares, queue_s, without_layers, libraries)
        # Of 64 MB of sources and bytecode: a compiled function and its size, by key.
        self._cache: LRUCache[CodeKey, tuple[Compiled | None, int]] = LRUCache(64 << 20, itemgetter(1))
        self._start_afresh()
        _pools.add(self)

    def _start_afresh(self) -> None:
        self._cache_lock = threading.Lock()
        self._slots = Slots(self._at_once, max(1, self._at_once // 2))
        self._readers = Slots(_READ_AT_ONCE, _READ_AT_ONCE // 2)
        self._kept = KeptChildren()
        self._unread: deque[Ending] = deque()

    # Public methods

    def check(
        self, source: str, allowed_imports: Iterable[str] = (), entry: str = "main", *, safe_mode: bool = True,
        is_async: bool | None = None, requires_context: bool | None = None, input_schema: Any = None,
        owner: str | None = None,
    ) -> list[Refusal]:  # fmt: skip
        """The problems of a source; empty if it is accepted. Flags and schema are compared with it
        if given.

        Raises SandboxUnavailable if nothing can be compiled (see `manage.py doctor`), NoChild if
        the pool is too busy.
        """
        imports = _sorted(allowed_imports)
        expect = {"is_async": is_async, "requires_context": requires_context, "input_schema": input_schema}
        compiled = self._compile(source, entry, imports, safe_mode, expect, owner)
        return list(compiled.refusals)

    def execute(
        self, source: str, arguments: Mapping[str, Any] | None = None, *, entry: str = "main",
        allowed_imports: Iterable[str] = (), safe_mode: bool = True, limits: Limits | None = None,
        context: Mapping[str, Any] | None = None, grants: Mapping[str, Callable[..., Any]] | None = None,
        host: Any = None, min_isolation: str = "reduced", reuse: str | None = None, owner: str | None = None,
        cancellation: Cancellation | None = None,
    ) -> Outcome:  # fmt: skip
        """Compile the source (or use the cache), call its entry with the arguments as keywords, and
        return how it ended.

        grants: the callables for ctx.call() by name: a dict of arguments in, JSON out. host: an
        object with any of log(message, level, fields), progress(done, total, message), kv_get(key),
        kv_set(key, value), http(request). reuse: a run's id; calls of the same source with the same
        limits and id share one process (see release). owner: the user the call is for; one owner
        never gets more than half of the concurrent calls.
        """
        try:
            compiled = self._compile(source, entry, _sorted(allowed_imports), safe_mode, None, owner)
        except (NoChild, SandboxUnavailable) as error:
            return _not_run(error)
        if compiled.refusals:
            return _refused(compiled.refusals)
        return self._execute(
            compiled, arguments, limits or _USUAL_LIMITS, context, grants, host, min_isolation, reuse, owner,
            cancellation,
        )  # fmt: skip

    def _execute(
        self, compiled: Compiled, arguments: Mapping[str, Any] | None, limits: Limits,
        context: Mapping[str, Any] | None, grants: Mapping[str, Callable[..., Any]] | None, host: Any,
        min_isolation: str, reuse: str | None, owner: str | None, cancellation: Cancellation | None,
    ) -> Outcome:  # fmt: skip
        try:
            order = call_order(arguments, context, limits)
            loan = Loan(self._slots, owner)
            callbacks = Callbacks(grants, host, limits, loan)
            call = _Call(compiled, order, limits, callbacks, min_isolation, cancellation)
            self._slots.take(self._queue_s, owner)
            try:
                if reuse is None:
                    return self._call(call)
                return self._call_kept((reuse, owner, compiled, limits), call)
            finally:
                self._slots.give_back(owner)
        except BadArguments as error:
            return Outcome(status="refused", error=FunctionError("BadArguments", str(error)))
        except (NoChild, SandboxUnavailable) as error:
            return _not_run(error)

    def interpret(
        self, code: str, inputs: Sequence[Mapping[str, Any]], *, session: str, host: Any, limits: Limits,
        owner: str | None = None, cancellation: Cancellation | None = None,
    ) -> Outcome:  # fmt: skip
        """Run plain Python in the session's process, which keeps its variables and files; the first
        call of a session starts it. Without the language layer: only the kernel's layers protect.

        inputs: {"file", "name"} of each file to copy into /mnt/inputs, and {"skill", "text", "file"} of each
        skill to unpack below /mnt/skills; host.read_file(file, offset,
        size) returns bytes, and host.save_file stores what the code wrote. The result is that of
        inside/interpreter.py.
        """
        program = interpreter(frozenset(self._servers.libraries.interpreter))
        arguments = {"code": code, "inputs": list(map(dict, inputs))}
        return self._execute(program, arguments, limits, {}, None, host, "reduced", session, owner, cancellation)

    def start(self) -> None:
        """Start the fork server of functions without libraries, and its spare children, for as long
        as the pool is open. Others end when they were not used for a while.
        """
        self._servers.keep(CORE)

    def warm(self, sets: Iterable[Iterable[str]]) -> None:
        """Start the fork servers of these sets of libraries, one after another; at most as many as
        a pool keeps.

        A set with a library that is not offered is left out.
        """
        offered = self._servers.libraries.offered.keys()
        profiles = [build_profile_name(names) for names in map(set, sets) if names and names <= offered]
        for profile in profiles[:MOST_WITH_LIBRARIES]:
            self._servers.warm_now(profile)

    def use(self, libraries: Libraries) -> None:
        """Use these libraries from now on; before, there were none."""
        self._servers.libraries = libraries

    def warm_interpreter(self) -> None:
        """Start the fork server of the interpreter, with its libraries."""
        self._servers.warm_now(build_profile_name(self._servers.libraries.interpreter, FILES))

    def keeps(self, reuse: str) -> bool:
        """Whether a process of this run waits for its next call."""
        return self._kept.has(reuse)

    def release(self, reuse: str) -> None:
        """End the kept children of a run. Call it when the run has ended."""
        self._kept.release(reuse)

    def refuse_everything(self, reason: str) -> None:
        """Refuse all calls from now on: the self-test found that the boundary is not secure."""
        self._servers.refuse_everything(reason)
        self.close()

    def close(self) -> None:
        """End every fork server and all running calls. A later call starts new servers."""
        self._kept.release()
        self._servers.close()
        while self._unread:
            self._unread.popleft().usage()

    # Compiling and reading

    def _compile(
        self, source: str, entry: str, imports: tuple[str, ...], safe_mode: bool, expect: dict[str, Any] | None,
        owner: str | None,
    ) -> Compiled:  # fmt: skip
        key = cache_key(source, entry, imports, safe_mode, expect)
        with self._cache_lock:
            program, _ = self._cache.get(key, (None, 0))
        if program is None:
            question = {"entry": entry, "imports": imports, "safe_mode": safe_mode}
            more = {"source": source, "expect": expect, "libraries": self._servers.libraries.offered}
            program = self._compile_in_child(question, more, owner)
            if not is_too_much(program):
                # The machine may only have been busy.
                with self._cache_lock:
                    self._cache[key] = program, measure_compiled(key, program)
        return program

    def _compile_in_child(self, question: dict[str, Any], more: dict[str, Any], owner: str | None) -> Compiled:
        try:
            outcome = self._ask(COMPILER, question | more, COMPILE_LIMITS, owner)
        except BadArguments as error:
            return unreadable(str(error))
        if not outcome.ok:
            return too_much(outcome.status)
        answer = parse_compiled(outcome.result, question, self._servers.libraries)
        self._servers.warm(answer.profile)
        return answer

    def read(self, task: str, parts: Iterable[Any], owner: str | None = None) -> Any:
        """Run one of the tasks of inside/reader.py in a limited child: {"value": …} or {"refused":
        …}.

        None if it took too much time or memory. Raises SandboxUnavailable, NoChild, BadArguments.
        """
        limits = READ_LIMITS
        if task == "unpack":
            limits = UNPACK_LIMITS
        elif task in ("openapi", "letter"):
            limits = DOCUMENT_LIMITS
        outcome = self._ask(READER, {"task": task, "parts": list(parts)}, limits, owner)
        if not outcome.ok:
            return None
        return outcome.result

    def _ask(self, whom: Compiled, question: dict[str, Any], limits: Limits, owner: str | None) -> Outcome:
        """The answer of one of our own programs in a child with the usual limits."""
        call = _Call(whom, encode_order(question), limits, Callbacks(None, None, limits), "reduced", None)
        self._readers.take(self._queue_s, owner)
        try:
            outcome = self._call(call)
        finally:
            self._readers.give_back(owner)
        if outcome.status == "refused":
            raise SandboxUnavailable(outcome.error.message if outcome.error else "no compiler", outcome.layers)
        if outcome.error and outcome.error.type == "SandboxLost":
            raise NoChild("the process was stopped from outside; try again")
        return outcome

    # Calling

    def _call(self, call: _Call) -> Outcome:
        for _ in range(_TRIES):
            outcome, has_begun = self._call_once(call)
            if has_begun:
                break
        return outcome

    def _call_once(self, call: _Call) -> tuple[Outcome, bool]:
        """How the call ended, and whether it had begun: a child may have ended before it read its
        job.
        """
        server, child = self._servers.take(call.compiled.profile)
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
        self._servers.refill(server)
        return outcome, not conversation.has_gone

    def _call_kept(self, key: Key, call: _Call) -> Outcome:
        kept = self._kept.take(key)
        is_new = kept is None
        if kept is None:
            kept = KeptChild(key, *self._servers.take(call.compiled.profile))
        refusal = self._too_little(kept.server, call)
        if refusal is not None:
            kept.end()
            return refusal
        job = first_job(call.compiled, call.limits, call.order, keep=True) if is_new else next_job(call.order)
        outcome = self._converse_with(kept, call, job)
        if is_new:
            self._servers.refill(kept.server)
        elif kept.conversation.has_gone:
            # It died while it was idle.
            return self._call_kept(key, call)
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
            return conversation.run(job, call.callbacks, keep=keep, meanwhile=meanwhile)
        finally:
            if call.cancellation is not None:
                call.cancellation.attach(None)
            call.callbacks.close()

    def _too_little(self, server: ForkServer, call: _Call) -> Outcome | None:
        if self._run_regardless or server.isolation == "full":
            return None
        if server.isolation == "reduced" and call.min_isolation != "full":
            return None
        message = f"isolation here is {server.isolation!r}, but {call.min_isolation!r} is required: see `doctor`"
        error = FunctionError("Isolation", message)
        return Outcome(status="refused", error=error, isolation=server.isolation, layers=server.layers)

    def _read_endings(self) -> None:
        """Read the reports that no caller requested, so that their descriptors do not accumulate."""
        while len(self._unread) > _UNREAD_ENDINGS:
            try:
                ending = self._unread.popleft()
            except IndexError:
                # Another thread was faster.
                return
            if not ending.is_in():
                # A caller is waiting: try again later.
                self._unread.append(ending)
                return
            ending.usage()

    def _after_fork(self) -> None:
        """Called in a forked copy of the host: the processes belong to the original."""
        self._servers.forget()
        self._start_afresh()


class _Call:
    """The data of one call on its way through the pool."""

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


_USUAL_LIMITS = Limits()


def _not_run(error: NoChild | SandboxUnavailable) -> Outcome:
    if isinstance(error, NoChild):
        return Outcome(status="busy", error=FunctionError("Busy", str(error)))
    return Outcome(status="refused", error=FunctionError("SandboxUnavailable", str(error)), layers=error.layers)


def _sorted(imports: Iterable[str]) -> tuple[str, ...]:
    if not imports:
        return ()
    return tuple(sorted(set(imports)))


def _refused(refusals: tuple[Refusal, ...]) -> Outcome:
    first = refusals[0]
    error = FunctionError("Refused", f"line {first.line}: {first.message}", first.line)
    return Outcome(status="refused", error=error, refusals=refusals)


def _forget_after_fork() -> None:
    for pool in _pools:
        pool._after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)
