"""Seconds of a call, and calls made by several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


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
