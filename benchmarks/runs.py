"""Runs that are many, slow, waiting, watched or old. `python -m benchmarks.runs [--db postgres] [part …]`.

slow-model   64 callers of a model that takes 0.3 s, beside the bare app
slow-crowd   500 callers of a model that takes 2 s, beside the bare app
slow-runs    200 messages at once to a model that takes 2 s
waiting      500 runs that wait for an approval, and what a message takes beside them
callers      5,000 callers that wait for a reply, at one web process
watchers     1,000 event streams of one run
replay       10,000 stored events over one stream
history      a message before and after 100,000 stored runs
lists        the list of runs and an agent's figures of a month, with 100,000 stored runs
memory       what `serve` holds at rest, when it has started and after 640 messages
first        the first message to a model after a start
idle         the CPU that `serve` takes while nothing is asked of it
"""

import argparse
import asyncio
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from benchmarks.load import Caller, cpu_of, measure
from benchmarks.message import BODY, bare, made, muster, process, stub

SLOW_MODEL_S, SLOW_RUN_S = 0.3, 2.0
UNFINISHED = re.compile(r'^muster_runs_live\{status="(?:queued|running)"\} (\S+)', re.MULTILINE)


class Installation:
    """A fresh Muster with the agent “adder” behind a stub that answers after `silent_s`."""

    def __init__(self, db: str, base: str, key: str, pid: int, folder: Path) -> None:
        self.db, self.base, self.key, self.pid, self.folder = db, base, key, pid, folder
        self.headers = {"Authorization": f"Bearer {key}"}
        self.messages = f"{base}/api/v1/agents/adder/messages"

    def api(self) -> httpx2.Client:
        return httpx2.Client(base_url=f"{self.base}/api/v1", headers=self.headers, timeout=120, trust_env=False)

    def program(self, name: str) -> psutil.Process:
        """Its “web” process."""
        word = {"web": "muster web"}[name]
        matches = [
            process
            for process in psutil.Process(self.pid).children(recursive=True)
            if word in " ".join(process.cmdline())
        ]
        return matches[0]

    def figures(self, callers: int, count: int) -> Any:
        return measure(
            lambda client: client.post(self.messages, json=BODY, headers=self.headers),
            callers=callers, count=count, pids=(self.pid,), check=lambda answer: "42" in answer.json()["reply"]["text"],
        )  # fmt: skip


@contextmanager
def installation(db: str, *, silent_s: float = 0.0) -> Iterator[tuple[Installation, str]]:
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        stub(silent_s=silent_s) as stub_url,
        muster(Path(folder), db, stub_url) as (base, key, pid),
    ):
        yield Installation(db, base, key, pid, Path(folder) / "data"), stub_url


def slow_model(db: str, callers: int = 64, count: int = 640, silent_s: float = SLOW_MODEL_S) -> None:
    with installation(db, silent_s=silent_s) as (ours, stub_url), bare(stub_url) as (floor, pid):
        theirs = measure(
            lambda client: client.post(f"{floor}/messages", json=BODY),
            callers=callers, count=count, pids=(pid,), check=lambda answer: "42" in answer.json()["reply"],
        )  # fmt: skip
        mine = ours.figures(callers, count)
        print(f"bare            {theirs}\nmuster {db:8} {mine}", flush=True)
        show_memory(ours, f"throughput x {mine.per_second / theirs.per_second:.2f}; memory after it")


def slow_crowd(db: str) -> None:
    slow_model(db, callers=500, count=1500, silent_s=SLOW_RUN_S)


def slow_runs(db: str) -> None:
    """The ideal is two turns of the model; a pool of few threads would take many times that."""
    with installation(db, silent_s=SLOW_RUN_S) as (ours, _):
        for what in ("first", "again"):  # the first time threads and connections are made
            began = time.perf_counter()
            mine = ours.figures(200, 200)
            took, ideal = time.perf_counter() - began, 2 * SLOW_RUN_S
            print(
                f"{what}: {mine}\n200 runs took {took:.1f} s, {took / ideal:.2f} x the ideal of {ideal:.0f} s",
                flush=True,
            )


def waiting(db: str) -> None:
    with installation(db) as (ours, _), ours.api() as api:
        before = ours.figures(4, 100)
        grant(api, "ask")
        process = ours.program("web")
        for _ in range(500):
            made(api.post("/agents/adder/messages", json={**BODY, "wait": 0}))
        until = time.monotonic() + 120
        while (count := waiting_runs(api)) < 500 and time.monotonic() < until:
            time.sleep(1)
        idle = cpu_share(process, 5)
        grant(api, "allow")
        after = ours.figures(4, 100)
        print(f"before {before}\nbeside {after}")
        print(f"{count} runs wait; it has {process.num_threads()} threads and uses {idle:.1f} % CPU", flush=True)


def grant(api: httpx2.Client, mode: str) -> None:
    made(api.put("/agents/adder/grants", json=[{"tool": "add", "mode": mode}]))


def waiting_runs(api: httpx2.Client) -> int:
    """All pages of the list."""
    count, page = 0, "/runs/?status=waiting&limit=100"
    while page:
        answer = made(api.get(page))
        count, page = count + len(answer["results"]), answer["next"]
    return count


def cpu_share(process: psutil.Process, seconds: float) -> float:
    process.cpu_percent()
    time.sleep(seconds)
    return process.cpu_percent()


def callers(db: str, count: int = 5000, answered: int = 200) -> None:
    """Their pool has no process, so all of them wait. Then one comes, the first get their answer, and the others leave."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with installation(db) as (ours, _), ours.api() as api, ExitStack() as stack:
        ours.figures(64, 640)  # threads and connections are made
        web = ours.program("web")
        made(api.patch("/agents/adder", json={"pool": "held"}))
        before, threads = memory_of(web), web.num_threads()

        def begin() -> None:
            stack.enter_context(process(sys.executable, "-c", WORKER, output=ours.folder / "worker", **held_of(ours)))

        held, good = asyncio.run(call_and_wait(ours, begin, count, answered, lambda: memory_of(web)))
        time.sleep(2)
        print(
            f"{count:,} wait: {(held - before) / count / 1024:.1f} kB each; {web.num_threads() - threads} more threads"
        )
        print(
            f"{good} of {answered} were answered; afterwards {(memory_of(web) - before) / 2**20:.0f} MB more",
            flush=True,
        )


WORKER = "import django; django.setup(); from runs.worker.process import Worker; Worker().start(); import time; time.sleep(3600)"


def held_of(ours: Installation) -> dict[str, str]:
    """The environment of a process that takes the runs of the pool “held”."""
    database = {"DB": "postgres"} if ours.db == "postgres" else {}
    place = {"MUSTER_DATA_DIR": str(ours.folder), "MUSTER_PRIVATE_HOSTS": "127.0.0.1"}
    return {"DJANGO_SETTINGS_MODULE": "config.settings", "MUSTER_WORKER_POOLS": "held", **place, **database}


async def call_and_wait(
    ours: Installation, begin: Callable[[], None], count: int, answered: int, memory: Callable[[], int]
) -> tuple[int, int]:
    """(bytes held while all wait, right answers)"""
    body = {**BODY, "wait": 600}
    waiting: list[asyncio.Task[Any]] = []
    async with httpx2.AsyncClient(base_url=ours.base, headers=ours.headers, timeout=120, trust_env=False) as api:
        while len(waiting) < count:
            waiting += [
                asyncio.create_task(Caller().post(ours.messages, json=body, headers=ours.headers, within=900))
                for _ in range(100)
            ]
            await until_stored(api, len(waiting))
        held = memory()
        for task in waiting[answered:]:
            task.cancel()
        begin()
        answers = await asyncio.gather(*waiting[:answered])
    return held, sum("42" in answer.json()["reply"]["text"] for answer in answers)


async def until_stored(api: httpx2.AsyncClient, count: int) -> None:
    """Until so many runs are queued or in work."""
    total = 0
    for _ in range(3000):
        total = sum(int(float(number)) for number in UNFINISHED.findall((await api.get("/metrics")).text))
        if total >= count:
            return
        await asyncio.sleep(0.2)
    raise SystemExit(f"Only {total} of {count} runs were stored.")


def memory_of(process: psutil.Process) -> int:
    """Bytes, what is shared with other processes by its part."""
    return process.memory_full_info().pss


def watchers(db: str, count: int = 1000) -> None:
    """They watch a run that waits for an approval, until it is cancelled; the second time the threads are there."""
    with installation(db) as (ours, _), ours.api() as api:
        grant(api, "ask")
        web = ours.program("web")
        for what in ("first", "again"):
            run = made(api.post("/agents/adder/messages", json={**BODY, "wait": 0}))["run"]["id"]
            before = web.memory_info().rss
            ends, requests, held = asyncio.run(watch(ours, run, count, web))
            last = (max(ends, default=requests) - requests) * 1000
            print(f"{what}: {len(ends):,} of {count:,} streams saw the end, the last {last:.0f} ms after the cancel")
            print(f"web: {(held - before) / count / 1024:.0f} kB a watcher, {web.num_threads()} threads", flush=True)


class Watcher(asyncio.Protocol):
    """One event stream, read as bytes: a thousand HTTP clients would take more than the server does."""

    def __init__(self, request: bytes, watching: asyncio.Semaphore, ends: list[float]) -> None:
        self.request, self.watching, self.ends = request, watching, ends
        self.read = b""
        self.has_ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        before, self.read = self.read, self.read + data
        if (word := b"event: run.waiting") in self.read and word not in before:
            self.watching.release()
        if (word := b"event: run.finished") in self.read and word not in before:
            self.ends.append(time.perf_counter())
            self.has_ended.set_result(None)


async def watch(ours: Installation, run: str, count: int, web: psutil.Process) -> tuple[list[float], float, int]:
    """(when each stream saw the end, when it was cancelled, bytes held by the web server while all watch)."""
    ends: list[float] = []
    watching = asyncio.Semaphore(0)
    address = httpx2.URL(ours.base)
    lines = [f"GET /api/v1/runs/{run}/stream HTTP/1.1", f"Host: {address.host}", "Accept: text/event-stream"]
    request = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in ours.headers.items()), "", ""]).encode()
    loop = asyncio.get_running_loop()
    watchers = [
        await loop.create_connection(lambda: Watcher(request, watching, ends), address.host, address.port)
        for _ in range(count)
    ]
    for _ in range(count):
        await watching.acquire()
    held = web.memory_info().rss
    async with httpx2.AsyncClient(timeout=120, trust_env=False) as client:
        began = time.perf_counter()
        (await client.post(f"{ours.base}/api/v1/runs/{run}/cancel", json={}, headers=ours.headers)).raise_for_status()
    await asyncio.gather(*(watcher.has_ended for _, watcher in watchers))
    for transport, _ in watchers:
        transport.close()
    return ends, began, held


def replay(db: str, count: int = 10_000) -> None:
    with installation(db) as (ours, _), ours.api() as api:
        run = made(api.post("/agents/adder/messages", json=BODY))["run"]["id"]
        in_database(ours, f"benchmarks.stored.add_events({run!r}, {count})")
        times = [timed_replay(ours, run, count) for _ in range(5)]
        print(f"{count:,} events replayed: {', '.join(f'{one * 1000:.0f}' for one in times)} ms", flush=True)


def timed_replay(ours: Installation, run: str, count: int) -> float:
    began, seen = time.perf_counter(), 0
    with httpx2.stream(
        "GET", f"{ours.base}/api/v1/runs/{run}/stream", headers=ours.headers, timeout=60, trust_env=False
    ) as stream:
        for chunk in stream.iter_raw():
            seen += chunk.count(b"\nevent: ") + chunk.startswith(b"event: ")
    assert seen >= count, f"only {seen} of {count} events came"
    return time.perf_counter() - began


def history(db: str, count: int = 100_000) -> None:
    """Two blocks before, two after, so that a busy moment of the machine is seen as such."""
    with installation(db) as (ours, _):
        before = [ours.figures(1, 100) for _ in range(3)]
        in_database(ours, f"benchmarks.stored.add_runs({count})")
        after = [ours.figures(1, 100) for _ in range(3)]
        cpu = [statistics.median(one.cpu_ms for one in block) for block in (before, after)]
        p50 = [statistics.median(one.p50 for one in block) for block in (before, after)]
        print(f"empty   p50 {p50[0]:.1f} ms  CPU {cpu[0]:.1f} ms\n{count:,} p50 {p50[1]:.1f} ms  CPU {cpu[1]:.1f} ms")
        print(f"after {count:,} runs: p50 x {p50[1] / p50[0]:.3f}, CPU x {cpu[1] / cpu[0]:.3f}", flush=True)


def lists(db: str, count: int = 100_000) -> None:
    with installation(db) as (ours, _), ours.api() as api:
        in_database(ours, f"benchmarks.stored.add_runs({count})")
        for path in ("/me", "/runs/?limit=50", "/agents/adder/figures?window=month"):
            times = [timed_get(api, path) for _ in range(21)]
            print(f"{path:36} first {times[0]:5.0f} ms, then p50 {statistics.median(times[1:]):5.1f} ms", flush=True)


def timed_get(api: httpx2.Client, path: str) -> float:
    began = time.perf_counter()
    made(api.get(path))
    return (time.perf_counter() - began) * 1000


def idle(db: str, seconds: float = 40.0) -> None:
    """Percent of one CPU: the supervisor with all below it, and each of its programs with what is below that."""
    with installation(db) as (ours, _):
        processes = [psutil.Process(ours.pid), *psutil.Process(ours.pid).children()]
        time.sleep(10)  # what went before has to end
        before = [cpu_of(one.pid) for one in processes]
        time.sleep(seconds)
        shares = [(cpu_of(one.pid) - cpu) / seconds * 100 for one, cpu in zip(processes, before, strict=True)]
        print(f"`serve` idle for {seconds:.0f} s: {shares[0]:.2f} % of a CPU")
        for one, share in zip(processes[1:], shares[1:], strict=True):
            print(f"  {share:5.2f} %  {name_of(one)}", flush=True)


def memory(db: str) -> None:
    """PSS: what is shared between processes counts once."""
    with installation(db) as (ours, _):
        show_memory(ours, "started")
        ours.figures(32, 640)
        time.sleep(75)  # sandbox servers that nobody uses end
        show_memory(ours, "after 640 messages")


def show_memory(ours: Installation, what: str) -> None:
    programs = [psutil.Process(ours.pid), *psutil.Process(ours.pid).children()]
    trees = [(one, [one, *one.children(recursive=True)] if one.pid != ours.pid else [one]) for one in programs]
    sums = {name_of(one): sum(map(memory_of, tree)) / 2**20 for one, tree in trees}
    print(
        f"{what}: {sum(sums.values()):.0f} MB, " + ", ".join(f"{name} {mb:.0f}" for name, mb in sums.items()),
        flush=True,
    )


def first(db: str) -> None:
    """`serve` is started a second time: then the agent is there and nobody has used it yet."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder, stub() as stub_url:
        with muster(Path(folder), db, stub_url):
            pass
        with muster(Path(folder), db, None) as (base, key, _):
            headers = {"Authorization": f"Bearer {key}"}
            with httpx2.Client(base_url=f"{base}/api/v1", headers=headers, timeout=60, trust_env=False) as api:
                times = []
                for _ in range(12):
                    began = time.perf_counter()
                    made(api.post("/agents/adder/messages", json=BODY))
                    times.append((time.perf_counter() - began) * 1000)
    print(
        f"first message {times[0]:.0f} ms, second {times[1]:.0f} ms, then p50 {statistics.median(times[2:]):.0f} ms",
        flush=True,
    )


def name_of(program: psutil.Process) -> str:
    line = " ".join(program.cmdline())
    return next((name for word, name in PROGRAMS.items() if word in line), line[:40])


def in_database(ours: Installation, call: str) -> None:
    """Run `benchmarks.stored.<call>` in a process that has this installation's settings."""
    import subprocess

    environment = {**os.environ, "MUSTER_DATA_DIR": str(ours.folder), "DB": "postgres" if ours.db == "postgres" else ""}
    code = f"import benchmarks.stored\n{call}"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


PROGRAMS = {
    "manage.py serve": "supervisor",
    "muster web": "web",
    "muster rescue": "rescue",
    "valkey": "valkey",
    "postgres": "postgres",
}
PARTS = {
    "slow-model": slow_model, "slow-crowd": slow_crowd, "slow-runs": slow_runs, "waiting": waiting, "callers": callers, "watchers": watchers,
    "replay": replay, "history": history, "lists": lists, "memory": memory, "first": first, "idle": idle,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    options = parser.parse_args()
    for name in options.parts or PARTS:
        print(f"\n-- {name} on {options.db}", flush=True)
        PARTS[name](options.db)


if __name__ == "__main__":
    main()
