"""Callers that each send the next request when the last one was answered; latency and the CPU it cost.

They share the cores with what is measured, so they are lean: httpx2 took 8 to 14 ms of CPU a message at 64 callers.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

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


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """One HTTP/1.1 connection, kept open."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter | None = None

    async def post(self, url: str, *, json: Any, headers: dict[str, str] | None = None, within: float = 60) -> Answer:
        parts = urlsplit(url)
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(parts.hostname, parts.port)
        self.writer.write(request(parts.netloc, parts.path, json, headers or {}))
        try:
            async with asyncio.timeout(within):
                return await self.read()
        except asyncio.CancelledError:
            self.close()
            raise

    async def read(self) -> Answer:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = b""
        if "content-length" in fields:
            body = await self.reader.readexactly(int(fields["content-length"]))
        elif fields.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        if fields.get("connection") == "close":
            self.close()
        return Answer(int(first.split()[1]), body)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None


def request(host: str, path: str, body: Any, headers: dict[str, str]) -> bytes:
    content = json.dumps(body).encode()
    fields = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(content)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + content


def measure(
    send: Callable[[Caller], Any],
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
    remaining = count

    async def caller() -> None:
        nonlocal remaining, errors
        line = Caller()
        while remaining > 0:
            remaining -= 1
            began = time.perf_counter()
            try:
                good = check(await send(line))
            except (OSError, EOFError, KeyError, ValueError, TypeError):
                good = False
                line.close()
            latencies.append((time.perf_counter() - began) * 1000)
            errors += not good
        line.close()

    before, began = cpu_of(*pids), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    wall = time.perf_counter() - began
    cpu = cpu_of(*pids) - before
    cuts = statistics.quantiles(latencies, n=100)
    return Figures(callers, count, errors, cuts[49], cuts[94], cuts[98], count / wall, cpu / count * 1000)
