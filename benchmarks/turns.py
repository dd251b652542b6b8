"""Two installations that take turns: the ratio of the CPU that a request costs them.

What else runs on the machine, and what has filled its caches, then hits both alike. In every second pair the new one
is first.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import comb
from statistics import median
from typing import Any

import psutil

from benchmarks.load import measure

# The words that name a process in `ps`, and what it does.
PARTS = {"muster web": "web", "muster worker": "worker", "postgres": "database", "sandbox": "sandbox",
         "valkey": "Valkey", "supervisor": "supervisor"}  # fmt: skip


@dataclass(slots=True)
class Side:
    """An installation: how a caller sends it one request, and the process above all of its processes."""

    name: str
    send: Callable[[Any], Any]
    pid: int
    cpu_ms: list[float] = field(default_factory=list)  # of a request, in each turn
    rates: list[float] = field(default_factory=list)  # requests a second, in each turn
    parts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def take_turn(self, *, callers: int, count: int, check: Callable[[Any], bool]) -> bool:
        """Whether all answers were right: on a machine that is overrun, some come too late."""
        before = seconds_by_part(self.pid)
        figures = measure(self.send, callers=callers, count=count, pids=(self.pid,), check=check)
        after = seconds_by_part(self.pid)
        self.cpu_ms.append(figures.cpu_ms)
        self.rates.append(figures.per_second)
        for part, seconds in after.items():
            self.parts[part].append((seconds - before.get(part, 0.0)) / count * 1000)
        return not figures.errors

    def drop_turn(self) -> None:
        """The last one does not count."""
        self.cpu_ms.pop()
        self.rates.pop()
        for values in self.parts.values():
            values.pop()

    def __str__(self) -> str:
        parts = "  ".join(f"{part} {median(values):.2f}" for part, values in sorted(self.parts.items()))
        return f"{self.name}: {median(self.rates):6.1f} a second, CPU {median(self.cpu_ms):5.2f} ms  ({parts})"


def compare(old: Side, new: Side, *, pairs: int, callers: int, count: int, check: Callable[[Any], bool]) -> list[float]:
    """Print both and their ratio, new / old; return the ratio of each pair."""
    for side in (old, new):
        side.cpu_ms.clear()
        side.rates.clear()
        side.parts.clear()
    dropped = 0
    while len(old.cpu_ms) < pairs:
        order = (old, new) if len(old.cpu_ms) % 2 == 0 else (new, old)
        were_right = [side.take_turn(callers=callers, count=count, check=check) for side in order]
        if not all(were_right):
            old.drop_turn()
            new.drop_turn()
            dropped += 1
            if dropped > pairs:
                raise SystemExit("More pairs had wrong answers than right ones.")
    ratios = ratios_of(old.cpu_ms, new.cpu_ms)
    rates = ratios_of(old.rates, new.rates)
    print(f"{callers} callers, {pairs} pairs of {count} requests; {dropped} pairs with wrong answers do not count")
    print(f"  {old}\n  {new}")
    print(f"  new / old: CPU {describe(ratios)}, rate {describe(rates)}\n", flush=True)
    return ratios


def ratios_of(old: list[float], new: list[float]) -> list[float]:
    """Of each pair, the smallest first."""
    return sorted(after / before for before, after in zip(old, new, strict=True))


def describe(ratios: list[float]) -> str:
    low, high = interval(ratios)
    return f"{median(ratios):.3f} (95 %: {low:.3f} to {high:.3f})"


def interval(values: list[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median of sorted values. It assumes nothing about how they are distributed:
    each is above the true median with a chance of one half. Fewer than six values are not enough for it.
    """
    number = len(values)
    left_out, chance = 0, 1 / 2**number
    while chance <= 0.025:
        left_out += 1
        chance += comb(number, left_out) / 2**number
    if left_out == 0:
        raise ValueError(f"{number} pairs are too few: take at least 6")
    return values[left_out - 1], values[-left_out]


def seconds_by_part(pid: int) -> dict[str, float]:
    """CPU seconds of this process and those below it, by what they do."""
    totals: dict[str, float] = defaultdict(float)
    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        try:
            name, times = " ".join(process.cmdline()), process.cpu_times()
        except psutil.Error:
            continue
        part = next((part for word, part in PARTS.items() if word in name), "other")
        totals[part] += times.user + times.system + times.children_user + times.children_system
    return totals
