"""The sandbox's targets T1 to T12, interleaved with its rivals in one run. Read the ratios.

    python -m benchmarks.sandbox             # about a minute; rewrites its section of docs/benchmarks.md
    python -m benchmarks.sandbox --no-write
    python -m benchmarks.sandbox --one-core  # T6 and T8 with host and child on one core; writes nothing

`floor` = fork + one byte through a pipe + exit + wait from a bare Python, measured between the others.
pydantic-monty comes with requirements-dev.txt; without it, or without bubblewrap on the path, its row is left out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import page
from functions import sandbox
from tests.corpus import attack, reading

TRIVIAL = "def main(a):\n    return a\n"
HEAVY = """
def main(n):
    total, text, table = 0, [], {}
    for i in range(n):
        total += i * i % 7
        table[i % 100] = table.get(i % 100, 0) + i
        if i % 10 == 0:
            text.append(str(i))
    return [total, len(text), sum(table.values())]
"""
HEAVY_N = 300_000
ALL_LAYERS = ("user_ns", "pid_ns", "net_ns", "mount_ns", "ipc_ns", "uts_ns", "uid", "capabilities", "no_new_privs",
              "landlock", "seccomp", "rlimits")  # fmt: skip
FLOOR = """
import os, sys, time
for _ in sys.stdin:
    began = time.perf_counter()
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, b"x")
        os._exit(0)
    os.read(r, 1)
    os.waitpid(pid, 0)
    os.close(r)
    os.close(w)
    print(time.perf_counter() - began, flush=True)
"""
Row = tuple[str, str, str, str]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=100)
    arguments.add_argument("--no-write", action="store_true")
    arguments.add_argument("--one-core", action="store_true")
    options = arguments.parse_args()
    text = on_one_core() if options.one_core else measure(options.rounds)
    print(text)
    if not (options.no_write or options.one_core):
        page.write_section("The sandbox", text)


def measure(rounds: int) -> str:
    """All tables, as markdown."""
    calls = Calls()
    try:
        times = interleave(calls.variants(), rounds)
        rows, floor = [], statistics.median(times["floor"])
        rows += latency_rows(times, floor)
        rows += [cpu_row(calls), *monty_cpu_row(calls), reuse_row(calls), throughput_row(calls), callback_row(calls)]
        rows += [memory_row(calls), timeout_row(calls), breach_row(calls), containment_row(calls), language_row(calls)]
        parts = [introduction(), table(("", "target", "measured", "met"), rows)]
        parts += ["\nOne trivial call, interleaved:\n", comparison(times, floor)]
        parts += ["\nEight threads at once:\n", crowd(calls)]
    finally:
        calls.close()
    return "\n".join(parts)


def on_one_core() -> str:
    """T6 and T8 without the hop between two cores, which costs more than the rest of such a call."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the fork servers inherit it
    calls = Calls()
    try:
        return table(("", "target", "measured on one core", "met"), [reuse_row(calls), callback_row(calls)])
    finally:
        calls.close()


class Calls:
    """Every way to make the trivial call, ready to be timed."""

    def __init__(self) -> None:
        self.pool = sandbox.Pool(spares=4)
        self.unprepared = sandbox.Pool(spares=0)
        self.bare = sandbox.Pool(spares=4, without_layers=ALL_LAYERS, run_regardless=True)
        self.floor = subprocess.Popen([sys.executable, "-I", "-S", "-c", FLOOR], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.monty = self.fresh_monty = None
        try:
            from pydantic_monty import Monty

            self.monty = Monty(min_processes=1).__enter__()
            self.fresh_monty = Monty(min_processes=1, max_checkouts_per_worker=1).__enter__()
        except ImportError:
            pass
        multiprocessing.set_forkserver_preload([])
        self.context = multiprocessing.get_context("forkserver")

    def variants(self) -> dict[str, Callable[[], Any]]:
        """Names and the calls; each returns seconds when it times itself."""
        found: dict[str, Callable[[], Any]] = {
            "floor": self.fork_once,
            "single-use child, spare ready": lambda: self.run(self.pool),
            "single-use child, no layers": lambda: self.run(self.bare),
            "fork per call, no spare ready": lambda: self.run(self.unprepared),
            'reuse="run"': lambda: self.pool.execute(TRIVIAL, {"a": 1}, reuse="bench"),
            "RestrictedPython in this process": in_process,
            "multiprocessing forkserver": self.forkserver,
            "python -I -c": lambda: subprocess.run([sys.executable, "-I", "-S", "-c", "print(1)"], capture_output=True),
        }
        if self.monty is not None:
            found["pydantic-monty, pooled worker"] = lambda: in_monty(self.monty, f"{TRIVIAL}main(1)")
            found["pydantic-monty, a worker per call"] = lambda: in_monty(self.fresh_monty, f"{TRIVIAL}main(1)")
        if shutil.which("bwrap"):
            found["bubblewrap and python"] = bubblewrap
        return found

    def run(self, pool: sandbox.Pool) -> None:
        assert pool.execute(TRIVIAL, {"a": 1}).result == 1

    def fork_once(self) -> float:
        assert self.floor.stdin
        assert self.floor.stdout
        self.floor.stdin.write("\n")
        self.floor.stdin.flush()
        return float(self.floor.stdout.readline())

    def forkserver(self) -> None:
        process = self.context.Process(target=abs, args=(1,))
        process.start()
        process.join()

    def close(self) -> None:
        for pool in (self.pool, self.unprepared, self.bare):
            pool.close()
        self.floor.terminate()
        self.floor.wait()
        for pool in (self.monty, self.fresh_monty):
            if pool is not None:
                pool.__exit__(None, None, None)


def in_process() -> None:
    from RestrictedPython import compile_restricted, safe_builtins

    space: dict[str, Any] = {"__builtins__": safe_builtins}
    exec(compile_restricted(TRIVIAL, "<function>", "exec"), space)
    space["main"](1)


def in_monty(pool: Any, code: str) -> Any:
    with pool.checkout() as session:
        return session.feed_run(code)


def bubblewrap() -> None:
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--die-with-parent", sys.executable, "-IS", "-c", "0"]
    subprocess.run(command, capture_output=True, check=False)


def interleave(variants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds by variant. The slow ones run in every fifth round only; a pause lets spares be made."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 5):
        for name, call in variants.items():
            if number % 5 and name in ("python -I -c", "bubblewrap and python", "multiprocessing forkserver"):
                continue
            time.sleep(0.004)
            began = time.perf_counter()
            own = call()
            took = own if name == "floor" else time.perf_counter() - began
            if number >= 5:
                times[name].append(took)
    return times


def latency_rows(times: dict[str, list[float]], floor: float) -> list[Row]:
    warm, cold, bare = (statistics.median(times[name]) for name in (
        "single-use child, spare ready", "fork per call, no spare ready", "single-use child, no layers"))  # fmt: skip
    return [
        row("T1", "single-use call, a spare child is ready", "≤ 1.0 x floor and ≤ 0.6 ms",
            f"{warm / floor:.2f} x, {warm * 1e3:.2f} ms", warm <= floor and warm <= 0.0006),
        row("T2", "no spare child ready", "≤ 5 x floor", f"{cold / floor:.2f} x", cold <= 5 * floor),
        row("T3", "all layers compared with none", "≤ 1.15 x", f"{warm / bare:.2f} x", warm <= 1.15 * bare),
    ]  # fmt: skip


def cpu_row(calls: Calls) -> Row:
    space: dict[str, Any] = {}
    exec(HEAVY, space)
    inside, plain = [], []
    calls.heavy = float("inf")
    for _ in range(9):
        plain.append(cpu_seconds(lambda: space["main"](HEAVY_N)))
        outcome = calls.pool.execute(HEAVY, {"n": HEAVY_N})
        inside.append(outcome.cpu_ms / 1e3)  # its start included; CPU time, since a neighbour's load is not ours
        calls.heavy = min(calls.heavy, outcome.wall_ms / 1e3)
    ratio = min(inside) / min(plain)
    return row(
        "T4", "CPU time of CPU-bound code compared with plain CPython", "≤ 1.15 x", f"{ratio:.2f} x", ratio <= 1.15
    )


def monty_cpu_row(calls: Calls) -> list[Row]:
    if calls.monty is None:
        return [("T5 against pydantic-monty", "≥ 2 x faster", "not installed", "–")]
    code = f"{HEAVY}\nmain({HEAVY_N})"
    monty = min(seconds(lambda: in_monty(calls.monty, code)) for _ in range(5))
    ratio = monty / calls.heavy
    return [row("T5", "CPU-bound call compared with pydantic-monty", "≥ 2 x faster", f"{ratio:.1f} x", ratio >= 2)]


def reuse_row(calls: Calls) -> Row:
    floor = statistics.median(calls.fork_once() for _ in range(50))
    calls.pool.execute(TRIVIAL, {"a": 1}, reuse="speed")
    times = [seconds(lambda: calls.pool.execute(TRIVIAL, {"a": 1}, reuse="speed")) for _ in range(3000)]
    p50, rate = statistics.median(times), len(times) / sum(times)
    measured = f"{p50 / floor:.3f} x, {rate:,.0f}/s"
    return row("T6", 'reuse="run"', "≤ 0.10 x floor, ≥ 10,000/s", measured, p50 <= 0.1 * floor and rate >= 10_000)


def throughput_row(calls: Calls) -> Row:
    count, threads = 300, 2
    began = time.perf_counter()
    together(threads, lambda: [calls.run(calls.pool) for _ in range(count)])
    rate = threads * count / (time.perf_counter() - began)
    return row("T7", "single-use calls a second, two callers", "≥ 250/s (stretch 600)", f"{rate:,.0f}/s", rate >= 250)


def callback_row(calls: Calls) -> Row:
    source = (
        "import time\ndef main(ctx):\n    t = time.perf_counter()\n    for n in range(500): ctx.call('f', n=n)\n"
        "    return (time.perf_counter() - t) / 500\n"
    )
    best = [calls.pool.execute(source, allowed_imports=["time"], grants={"f": dict}).result for _ in range(5)]
    p50 = statistics.median(best) * 1e6
    return row("T8", "callback round trip", "≤ 150 µs", f"{p50:.0f} µs", p50 <= 150)


def memory_row(calls: Calls) -> Row:
    launcher = calls.pool._servers.by_profile["core"]._process.pid
    zygote = children_of(launcher)[0]
    time.sleep(0.2)
    spares = [kb for pid in children_of(zygote) if (kb := proportional_kb(pid))]
    resident, spare = resident_kb(zygote) / 1024, statistics.median(spares or [0]) / 1024
    measured = f"{resident:.1f} MB, {spare:.1f} MB"
    return row(
        "T9",
        "memory: fork server resident, spare child proportional",
        "≤ 16 MB, ≤ 2 MB",
        measured,
        resident <= 16 and spare <= 2,
    )


def timeout_row(calls: Calls) -> Row:
    limits = sandbox.Limits(timeout_s=0.2)
    late = []
    for body in ("while True: pass", "return 10 ** 10 ** 8", "return sum(range(10 ** 11))") * 3:
        took = seconds(lambda body=body: calls.pool.execute(f"def main():\n    {body}\n", limits=limits))
        late.append(took - 0.2)
    return row("T10", "time limit is enforced", "limit + ≤ 0.3 s", f"+ {max(late):.2f} s at worst", max(late) <= 0.3)


def breach_row(calls: Calls) -> Row:
    source = "def main(n):\n    x = []\n    while True: x.append(bytearray(n))\n"
    limits = sandbox.Limits(memory_mb=16)
    typed = sum(
        calls.pool.execute(source, {"n": 10 ** (n % 5 + 3)}, limits=limits).status == "memory" for n in range(200)
    )
    return row("T10", "exceeded memory reported as such", "200 of 200", f"{typed} of 200", typed == 200)


def containment_row(calls: Calls) -> Row:
    hostile = reading.read("hostile")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        constants = attack.prize(Path(folder))
        outcomes = attack.attack(calls.pool, hostile, constants, mode="kernel")
        held = sum(not attack.achieved(case, outcomes[case.id], constants) for case in hostile)
    measured = f"{held} of {len(hostile)}"
    return row("T11", "hostile corpus, language layer off", "100 % contained", measured, held == len(hostile))


def language_row(calls: Calls) -> Row:
    from RestrictedPython import compile_restricted

    cases = [case for case in reading.read("ordinary") if case.group == "language"]
    stock = 0
    warnings.simplefilter("ignore")
    for case in cases:
        try:
            compile_restricted(case.text, "<function>", "exec")
        except SyntaxError:
            stock += 1
    accepted = sum(calls.pool.execute(case.text, allowed_imports=attack.IMPORTS).ok for case in cases)
    measured = f"{accepted} of {len(cases)} (stock RestrictedPython refuses {stock})"
    return row("T12", "ordinary constructs accepted", "all", measured, accepted == len(cases))


def comparison(times: dict[str, list[float]], floor: float) -> str:
    rows = []
    for name, taken in sorted(times.items(), key=lambda item: statistics.median(item[1])):
        p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
        rows.append((name, f"{p50 * 1e3:.3f}", f"{p95 * 1e3:.3f}", f"{p50 / floor:.2f}"))
    return table(("", "p50 ms", "p95 ms", "x floor"), rows)


def crowd(calls: Calls) -> str:
    taken: list[list[float]] = []

    def one() -> None:
        mine = []
        end = time.perf_counter() + 2
        while time.perf_counter() < end:
            mine.append(seconds(lambda: calls.run(calls.pool)))
        taken.append(mine)

    together(8, one)
    every = sorted(value for mine in taken for value in mine)
    counts = sorted(len(mine) for mine in taken)
    p50, p99 = statistics.median(every) * 1e3, every[int(len(every) * 0.99)] * 1e3
    rows = [(f"{len(every) / 2:,.0f}", f"{p50:.1f}", f"{p99:.1f}", f"{counts[0]} to {counts[-1]}")]
    return table(("calls/s", "p50 ms", "p99 ms", "calls of the least and the most served thread"), rows)


def introduction() -> str:
    load = os.getloadavg()[0]
    return (f"`python -m benchmarks.sandbox`, {platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, "
            f"Python {platform.python_version()}, load average {load:.1f} while measuring. The *floor* is a fork\n"
            "of a bare Python process that writes one byte to a pipe and exits.\n")  # fmt: skip


def row(number: str, what: str, target: str, measured: str, is_met: bool) -> Row:
    return f"{number} {what}", target, measured, "yes" if is_met else "no"


def table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(lines + [f"| {' | '.join(cells)} |" for cells in rows])


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def cpu_seconds(call: Callable[[], Any]) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began


def together(count: int, work: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def resident_kb(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4


def proportional_kb(pid: int) -> int:
    """0 for a process that has just ended, or that this user may not look into."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
