"""A child's life: locked already, it warms up, waits for one job, does it, and ends."""

from __future__ import annotations

import gc
import json
import marshal
import os
import resource
from typing import Any

from . import confine, facades, modules, runtime
from .channel import JOB, REPLY, Channel

_compiler: Any = None
_baseline_bytes = 0
_KEPT_S = 60.0
_REHEARSALS = 20


def preload(profile: str) -> None:
    """In the zygote, before the lock-down: load all that a child of this profile will ever have."""
    global _compiler
    runtime.set_alarm_handlers()
    if profile == "compiler":
        from . import compiler  # RestrictedPython's 4 MB are needed in this profile only

        _compiler = compiler
        compiler.warm_up()
        return
    facades.preload(profile)
    if profile == modules.EXTENDED:
        from . import extended  # asyncio and what else must be touched before nothing can be loaded

        extended.warm_up()
    runtime.run(runtime.Job(_DRY_JOB), _silence)


def settle() -> None:
    """In the zygote, last of all: whatever a child would still change in what it inherits is a page copied for it.

    The rehearsals let the interpreter specialise its code and fill its free lists and caches; what is frozen is never
    looked at by a collection.
    """
    gc.collect()
    for _ in range(_REHEARSALS):
        runtime.run(runtime.Job(_DRY_JOB), _silence)
    gc.freeze()


def live() -> None:
    """Warm up, then one job after another until one is the last. Never returns."""
    runtime.run(runtime.Job(_DRY_JOB), _silence)  # `random` has drawn a new seed by itself at the fork
    channel, code = Channel(), None
    while True:
        kind, payload = channel.receive()
        if kind != JOB:
            os._exit(0)
        job = runtime.Job(payload)
        if job.code is None:
            job.code = code  # the same function again, in a kept child
        else:
            confine.limit_job(job["memory_bytes"], job["cpu_s"] * (60 if job.keep else 1), _baseline_bytes)
        if job["operation"] == "compile":
            answer = _compiler.answer(job.order)
            channel.send(REPLY, b'{"ok":true,"printed":"","result":%b}' % answer)
        else:
            runtime.run(job, channel)
        if not job.keep:
            os._exit(0)
        code = job.code
        runtime.wait_at_most(_KEPT_S)


class _Silence(Channel):
    """Takes the warm-up's reply."""

    def send(self, kind: bytes, payload: bytes) -> None:
        return


def _dry_job() -> bytes:
    code = marshal.dumps(compile("def main(a): return {'a': [a, 1.5, 'x']}", runtime.FILENAME, "exec"))
    order = {"arguments": {"a": 1}, "entry": "main", "is_async": False, "takes_ctx": False, "safe_mode": True,
             "context": None, "imports": [], "timeout_s": 5, "printed_chars": 64, "output_bytes": 4096}  # fmt: skip
    return len(code).to_bytes(4, "little") + code + json.dumps(order).encode()


_DRY_JOB, _silence = _dry_job(), _Silence()


def note_size() -> None:
    """In the zygote, while /proc can still be read: what a child weighs before its first job."""
    global _baseline_bytes
    with open("/proc/self/statm", "rb") as statm:
        _baseline_bytes = int(statm.read().split()[0]) * resource.getpagesize()
