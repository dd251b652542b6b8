"""The sandbox's targets T1 to T12, interleaved with its rivals in one run. Read the ratios.

    python -m benchmarks.sandbox             # about a minute; rewrites its section of docs/benchmarks.md
    python -m benchmarks.sandbox --no-write

`floor` = fork + one byte through a pipe + exit + wait from a bare Python, measured between the others.
pydantic-monty comes with requirements-dev.txt; without it, or without bubblewrap on the path, its row is left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from typing import Any

from benchmarks import page
from benchmarks.sandbox.rivals import Calls
from benchmarks.sandbox.targets import every_row
from benchmarks.sandbox.timing import interleave, seconds, together


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=100)
    arguments.add_argument("--no-write", action="store_true")
    options = arguments.parse_args()
    text = measure(options.rounds)
    print(text)
    if not options.no_write:
        page.write_section("The sandbox", text)


def measure(rounds: int) -> str:
    """All tables, as markdown."""
    calls = Calls()
    try:
        times = interleave(calls.variants(), rounds)
        floor = statistics.median(times["floor"])
        rows = every_row(calls, times, floor)
        parts = [introduction(), table(("", "target", "measured", "met"), rows)]
        parts += ["\nOne trivial call, interleaved:\n", comparison(times, floor)]
        parts += ["\nEight threads at once:\n", crowd(calls)]
    finally:
        calls.close()
    return "\n".join(parts)


def comparison(times: dict[str, list[float]], floor: float) -> str:
    rows = []
    for name, durations in sorted(times.items(), key=lambda item: statistics.median(item[1])):
        p50, p95 = statistics.median(durations), statistics.quantiles(durations, n=20)[-1]
        rows.append((name, f"{p50 * 1e3:.3f}", f"{p95 * 1e3:.3f}", f"{p50 / floor:.2f}"))
    return table(("", "p50 ms", "p95 ms", "x floor"), rows)


def crowd(calls: Calls) -> str:
    durations: list[list[float]] = []

    def one() -> None:
        mine = []
        end = time.perf_counter() + 2
        while time.perf_counter() < end:
            mine.append(seconds(lambda: calls.run(calls.pool)))
        durations.append(mine)

    together(8, one)
    every = sorted(value for mine in durations for value in mine)
    counts = sorted(len(mine) for mine in durations)
    p50, p99 = statistics.median(every) * 1e3, every[int(len(every) * 0.99)] * 1e3
    rows = [(f"{len(every) / 2:,.0f}", f"{p50:.1f}", f"{p99:.1f}", f"{counts[0]} to {counts[-1]}")]
    return table(("calls/s", "p50 ms", "p99 ms", "calls of the least and the most served thread"), rows)


def introduction() -> str:
    load = os.getloadavg()[0]
    return (f"`python -m benchmarks.sandbox`, {platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, "
            f"Python {platform.python_version()}, load average {load:.1f} while measuring. The *floor* is a fork\n"
            "of a bare Python process that writes one byte to a pipe and exits.\n")  # fmt: skip


def table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(lines + [f"| {' | '.join(cells)} |" for cells in rows])


if __name__ == "__main__":
    main()
