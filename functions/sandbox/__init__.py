"""Runs stored functions: untrusted code, with each call in an isolated process. Does not depend on
Django.

    refusals = sandbox.check(source, allowed_imports=("re",))
    outcome = sandbox.execute(source, {"a": 1}, limits=sandbox.Limits(timeout_s=5))

Only the names below are public. See docs/security.md for the security guarantees.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterable
from typing import Any

from . import selftest
from .cancellation import Cancellation
from .forkserver import NoChild, SandboxUnavailable
from .inside import modules, requirements
from .inside.modules import EXPORTS as IMPORTABLE
from .libraries import NONE, Libraries
from .limits import POLICY_VERSION, Limits
from .orders import BadArguments
from .outcome import FunctionError, Outcome, Refusal
from .pool import Pool

__all__ = [
    "IMPORTABLE", "POLICY_VERSION", "BadArguments", "Cancellation", "FunctionError", "Libraries", "Limits", "NoChild",
    "Outcome", "Pool", "Refusal", "SandboxUnavailable", "check", "close", "execute", "import_hint", "interpret",
    "offer_later", "offer", "read", "release", "start", "warm", "warm_interpreter",
]  # fmt: skip

_EXAMINE_AFTER_S = 3.0
_lock = threading.Lock()
_pool: Pool | None = None
_libraries = NONE
_find: Callable[[], Libraries] | None = None


def check(source: str, allowed_imports: Any = (), entry: str = "main", **expectations: Any) -> list[Refusal]:
    """The problems of a source; empty if it is accepted. See Pool.check."""
    return _shared().check(source, allowed_imports, entry, **expectations)


def execute(source: str, arguments: Any = None, **options: Any) -> Outcome:
    """Run a source's entry function once. See Pool.execute."""
    return _shared().execute(source, arguments, **options)


def interpret(code: str, inputs: Any, **options: Any) -> Outcome:
    """Run plain Python over files in a process that keeps its state. See Pool.interpret."""
    _offer_late_libraries()
    return _shared().interpret(code, inputs, **options)


def read(task: str, parts: Any, owner: str | None = None) -> Any:
    """Run a task of the reader in a limited child. See Pool.read."""
    return _shared().read(task, parts, owner)


def start() -> None:
    """Start what the first call would start. See Pool.start."""
    _shared().start()


def warm(sets: Iterable[Iterable[str]]) -> None:
    """Load these sets of libraries before the first call. See Pool.warm."""
    if _libraries.offered:
        _shared().warm(sets)


def warm_interpreter() -> None:
    """Load the interpreter's libraries before the first call. See Pool.warm_interpreter."""
    _shared().warm_interpreter()


def keeps(reuse: str) -> bool:
    """Whether a process of this run waits for its next call."""
    return _pool is not None and _pool.keeps(reuse)


def release(reuse: str) -> None:
    """End the processes that were kept for a run. Call it when the run has ended."""
    if _pool is not None:
        # A process that never ran a function has no pool, and need not start one.
        _pool.release(reuse)


def close() -> None:
    """End the shared pool's processes; the next call starts new ones."""
    global _pool
    with _lock:
        pool, _pool = _pool, None
    if pool is not None:
        pool.close()


def import_hint(name: str) -> str:
    """The hint for a module that is not on the list of available modules."""
    return requirements.find_library_hint(name, _libraries.offered) or modules.find_import_hint(name)


def offer(libraries: Libraries) -> None:
    """Set the libraries that functions may require in the shared pool. Call it before the first
    use, or after close().
    """
    global _libraries
    _libraries = libraries


def offer_later(find: Callable[[], Libraries]) -> None:
    """Have the interpreter look for libraries with `find` as long as it has none: those that are installed later are
    used without a restart of the server.
    """
    global _find
    _find = find


def _offer_late_libraries() -> None:
    if _find is None or _libraries.directory:
        return
    libraries = _find()
    if libraries.directory:
        offer(libraries)
        _shared().use(libraries)


def _shared() -> Pool:
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool(libraries=_libraries)
            _examine_soon(_pool)
        return _pool


def _examine_soon(pool: Pool) -> None:
    """Run the self-test's attacks against this machine's sandbox once per boot, without delaying
    the first call.

    Until the report is ready, the layers reported by the kernel are trusted; if an attack then
    succeeds, nothing runs.
    """

    def examine() -> None:
        report = selftest.run_selftest()
        # without findings no process could be started, which each call reports itself
        if report.findings and not report.ok:
            pool.refuse_everything(f"the sandbox is not secure on this machine: {' '.join(report.problems)}")

    timer = threading.Timer(_EXAMINE_AFTER_S, examine)
    timer.daemon = True
    timer.start()


atexit.register(close)
