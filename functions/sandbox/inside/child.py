"""A child's life: locked already, it warms up, waits for one job, does it, and ends."""

from __future__ import annotations

import gc
import json
import marshal
import os
import resource
from typing import Any

from . import confine, facades, modules, runtime
from .channel import ANSWERS, HEADER, JOB, REPLY, Channel

_compiler: Any = None
_baseline_bytes = 0
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
    _rehearse(Channel(_read_rehearsal, _write_nothing))


def settle() -> None:
    """In the zygote, last of all: whatever a child would still change in what it inherits is a page copied for it.

    The rehearsals let the interpreter specialise its code and fill its free lists and caches; what is frozen is never
    looked at by a collection.
    """
    gc.collect()
    for _ in range(_REHEARSALS):
        _rehearse(Channel(_read_rehearsal, _write_nothing))
    gc.freeze()


def live(*, rehearse: bool) -> None:
    """One job after another until one is the last. Never returns.

    A spare first rehearses: each page that a job changes is copied for the child when it is first written to, which
    takes longer than a small job itself.
    """
    if rehearse:
        _rehearse(Channel(_read_no_more, _write_little))
    channel, job = Channel(), None
    while True:
        kind, payload = channel.receive()
        if kind == ANSWERS:
            continue  # the last job did not wait for it
        if kind != JOB:
            os._exit(0)
        if job is None:
            job = runtime.Job(payload)
            cpu_s = job.order["cpu_s"] * (60 if job.keep else 1)
            confine.limit_job(_baseline_bytes + job.order["memory_bytes"], cpu_s)
        else:
            job.renew(payload)
        if job.order["operation"] == "compile":
            channel.send(REPLY, b'{"ok":true,"printed":"","result":%b}' % _compiler.answer(job.order))
        else:
            runtime.run(job, channel)
        if not job.keep:
            os._exit(0)
        job.prepare()


def _rehearse(channel: Channel) -> None:
    """What a job does, from its arrival to the reply, but with limits as they are and the reply dropped."""
    _, payload = channel.receive()
    job = runtime.Job(payload)  # `random` has drawn a new seed by itself at the fork
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        resource.setrlimit(limit, resource.getrlimit(limit))
    runtime.run(job, channel)
    runtime.alarm.stop()


def _read_rehearsal(descriptor: int, size: int) -> bytes:
    return REHEARSAL


def _read_no_more(descriptor: int, size: int) -> bytes:
    """The job itself may be right behind."""
    return os.read(descriptor, len(REHEARSAL))


def _write_nothing(descriptor: int, data: bytes) -> int:
    return len(data)


def _write_little(descriptor: int, data: bytes) -> int:
    return os.write(descriptor, b"") + len(data)


def _rehearsal() -> bytes:
    code = marshal.dumps(compile("def main(a): return {'a': [a, 1.5, 'x']}", runtime.FILENAME, "exec"))
    order = {"arguments": {"a": 1}, "entry": "main", "is_async": False, "takes_ctx": False, "safe_mode": True,
             "context": None, "imports": [], "timeout_s": 5, "printed_chars": 64, "output_bytes": 4096}  # fmt: skip
    job = len(code).to_bytes(4, "little") + code + json.dumps(order).encode()
    return HEADER.pack(JOB, len(job)) + job


REHEARSAL = _rehearsal()  # the zygote sends it to each spare


def note_size() -> None:
    """In the zygote, while /proc can still be read: what a child weighs before its first job."""
    global _baseline_bytes
    with open("/proc/self/statm", "rb") as statm:
        _baseline_bytes = int(statm.read().split()[0]) * resource.getpagesize()
