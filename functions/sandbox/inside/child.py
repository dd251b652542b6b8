"""The life of a child, which starts locked down: it warms up, waits for a job, runs it, and ends."""

from __future__ import annotations

import gc
import importlib
import json
import marshal
import os
import resource
import sys
from typing import Any

from . import confine, facades, files, host_traces, modules, runtime
from .channel import ANSWERS, HEADER, JOB, REPLY, Channel, readable

# For profiles without stored code: the compiler or the reader.
_program: Any = None
_baseline_bytes = 0
# The hard limits of the host itself.
_most_bytes = _most_cpu_s = sys.maxsize
_REHEARSALS = 20
# Never reached: on a busy machine a spare may wait for seconds before it rehearses.
_REHEARSAL_S = 3600.0


def preload(profile: str, packages: tuple[str, ...] = ()) -> None:
    """In the zygote, before the lock-down: load everything that a child of this profile will need."""
    global _program
    runtime.set_alarm_handlers()
    if profile in ("compiler", "reader"):
        # Megabytes that no other profile needs.
        _program = importlib.import_module(f"{__package__}.{profile}")
        _program.warm_up()
        return
    profile = profile.partition("+")[0]
    if profile == files.PROFILE:
        from . import interpreter

        interpreter.preload(packages)
        _rehearse_here()
        host_traces.hide_host(packages)
        return
    facades.preload(profile, packages)
    if profile == modules.EXTENDED:
        # `asyncio` and other modules that must be used once while loading is still possible.
        from . import extended

        extended.warm_up()
    facades.refuse_files(profile)
    _rehearse_here()
    host_traces.hide_host(packages)


def settle() -> None:
    """In the zygote, as the last step: reduce the inherited memory pages that a child would change
    and so have to copy.

    The rehearsals let the interpreter specialise its code and fill its free lists and caches; the
    garbage collector never visits frozen objects.
    """
    gc.collect()
    for _ in range(_REHEARSALS):
        _rehearse_here()
    gc.freeze()


def live(*, rehearse: bool) -> None:
    """Run jobs until the last one. Never returns.

    A spare rehearses first, unless its job has already arrived: each page that a job changes is
    copied for the child at the first write, which takes longer than a small job itself.
    """
    if rehearse:
        channel = Channel(_read_no_more, _write_little)
        rehearsal = _first_job(channel)
        if not readable(0):
            _rehearse(rehearsal, channel)
            _touch_free_blocks()
    channel = Channel()
    job = _first_job(channel)
    bytes_ = min(_baseline_bytes + job.order["memory_bytes"], _most_bytes)
    cpu_s = min(job.order["cpu_s"] * (60 if job.keep else 1), _most_cpu_s)
    _do(job, channel, (bytes_, bytes_), (cpu_s, min(cpu_s + 1, _most_cpu_s)))
    while job.keep:
        job.prepare()
        kind, payload = channel.receive()
        while kind == ANSWERS:
            # An answer that the last job did not wait for.
            kind, payload = channel.receive()
        if kind != JOB:
            break
        job.renew(payload)
        runtime.run_job(job, channel)
    os._exit(0)


def _first_job(channel: Channel) -> runtime.Job:
    kind, payload = channel.receive()
    if kind != JOB:
        os._exit(0)
    return runtime.Job(payload)


def _do(job: runtime.Job, channel: Channel, address_space: tuple[int, int], cpu_s: tuple[int, int]) -> None:
    confine.limit_job(address_space, cpu_s)
    if job.order["operation"] == "run":
        runtime.run_job(job, channel)
    else:
        channel.send(REPLY, b'{"ok":true,"printed":"","result":%b}' % _program.answer(job.order))


def _rehearse(job: runtime.Job, channel: Channel) -> None:
    """Run the steps of a job up to the reply, without changing the limits; the reply is discarded."""
    _do(job, channel, resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU))
    runtime.alarm.stop()


def _rehearse_here() -> None:
    """Rehearse in the zygote, which has no job socket."""
    channel = Channel(_read_rehearsal, _write_nothing)
    _rehearse(_first_job(channel), channel)


def _touch_free_blocks() -> None:
    """Values of a job have other sizes than those of the rehearsal: write to the next free block of
    the usual sizes.

    Each size costs a spare 4 kB.
    """
    for size in range(8, 264, 16):
        bytes(size)


def _read_rehearsal(descriptor: int, size: int) -> bytes:
    return REHEARSAL


def _read_no_more(descriptor: int, size: int) -> bytes:
    """Read only the rehearsal, as the job may follow it directly."""
    return os.read(descriptor, len(REHEARSAL))


def _write_nothing(descriptor: int, data: bytes) -> int:
    return len(data)


def _write_little(descriptor: int, data: bytes) -> int:
    return os.write(descriptor, b"") + len(data)


def _rehearsal() -> bytes:
    code = marshal.dumps(compile("def main(a): return {'a': [a, 1.5, 'x']}", runtime.FILENAME, "exec"))
    order = {"arguments": {"a": 1}, "entry": "main", "is_async": False, "takes_ctx": False, "safe_mode": True,
             "context": None, "imports": [], "timeout_s": _REHEARSAL_S, "printed_chars": 64, "output_bytes": 4096,
             "memory_bytes": 1 << 29, "cpu_s": 31, "operation": "run"}  # fmt: skip
    job = len(code).to_bytes(4, "little") + code + json.dumps(order).encode()
    return HEADER.pack(JOB, len(job)) + job


# The zygote sends it to each spare.
REHEARSAL = _rehearsal()


def note_size() -> None:
    """In the zygote, while /proc is still readable: the memory of a child before its first job, and
    the maximum allowed.
    """
    global _baseline_bytes, _most_bytes, _most_cpu_s
    with open("/proc/self/statm", "rb") as statm:
        _baseline_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    _most_bytes, _most_cpu_s = _hard_limit(resource.RLIMIT_AS), _hard_limit(resource.RLIMIT_CPU)


def _hard_limit(limit: int) -> int:
    hard = resource.getrlimit(limit)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard
