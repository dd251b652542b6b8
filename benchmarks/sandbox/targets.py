"""One row for each of the targets T1 to T12."""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.sandbox.rivals import TRIVIAL, Calls, in_monty
from benchmarks.sandbox.timing import cpu_seconds, seconds, together
from functions import sandbox
from tests.corpus import attack, reading

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
Row = tuple[str, str, str, str]


def every_row(calls: Calls, times: dict[str, list[float]], floor: float) -> list[Row]:
    """All targets in their order; the times are those of the trivial call."""
    rows = latency_rows(times, floor)
    rows += [cpu_row(calls), *monty_cpu_row(calls), reuse_row(calls), throughput_row(calls), callback_row(calls)]
    rows += [memory_row(calls), timeout_row(calls), breach_row(calls), containment_row(calls), language_row(calls)]
    return rows


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


def row(number: str, what: str, target: str, measured: str, is_met: bool) -> Row:
    return f"{number} {what}", target, measured, "yes" if is_met else "no"


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
