"""Callers that each send the next request when the last one was answered; latency and the CPU it cost."""

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import psutil


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds; `cpu_ms` is user + system of the whole process tree for one message."""

    callers: int
    count: int
    errors: int
    p50: float
    p95: float
    p99: float
    per_second: float
    cpu_ms: float

    def __str__(self) -> str:
        return (
            f"{self.callers:3} callers  p50 {self.p50:7.1f} ms  p95 {self.p95:7.1f} ms  p99 {self.p99:7.1f} ms  "
            f"{self.per_second:6.1f}/s  CPU {self.cpu_ms:5.1f} ms  errors {self.errors}"
        )


def cpu_of(*pids: int) -> float:
    """CPU seconds of these processes and all below them, dead children that were waited for included."""
    total = 0.0
    for pid in pids:
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system + times.children_user + times.children_system
    return total


def measure(
    send: Callable[[httpx.AsyncClient], Any],
    *,
    callers: int,
    count: int,
    pids: tuple[int, ...],
    check: Callable[[Any], bool],
) -> Figures:
    """`count` requests over `callers` callers; `check` says whether an answer is right."""
    return asyncio.run(run(send, callers, count, pids, check))


async def run(send: Any, callers: int, count: int, pids: tuple[int, ...], check: Any) -> Figures:
    latencies: list[float] = []
    errors = 0
    left = count

    async def caller(client: httpx.AsyncClient) -> None:
        nonlocal left, errors
        while left > 0:
            left -= 1
            began = time.perf_counter()
            try:
                good = check(await send(client))
            except (httpx.HTTPError, KeyError, ValueError, TypeError):
                good = False
            latencies.append((time.perf_counter() - began) * 1000)
            errors += not good

    limits = httpx.Limits(max_connections=callers, max_keepalive_connections=callers)
    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as client:
        before, began = cpu_of(*pids), time.perf_counter()
        await asyncio.gather(*(caller(client) for _ in range(callers)))
        wall = time.perf_counter() - began
        cpu = cpu_of(*pids) - before
    cuts = statistics.quantiles(latencies, n=100)
    return Figures(callers, count, errors, cuts[49], cuts[94], cuts[98], count / wall, cpu / count * 1000)
