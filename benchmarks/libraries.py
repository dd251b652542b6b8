"""Functions that require libraries, beside plain ones, interleaved in one run. Read the ratios.

    python manage.py install_libraries
    python -m benchmarks.libraries             # about a minute; rewrites its section of docs/benchmarks.md
    python -m benchmarks.libraries --no-write

A call is made in a new process with all layers. `first call` compiles a source that is new and runs it.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import time
from pathlib import Path

from benchmarks import page
from functions import sandbox
from functions.sandbox.libraries import find_offered_libraries

DIRECTORY = Path(__file__).resolve().parent.parent / "var" / "libraries"
PLAIN = "def main(a):\n    return a\n"
PANDAS = 'requires = ["pandas"]\nimport pandas\ndef main(a):\n    return a\n'
WORK = """
requires = ["pandas"]
import pandas as pd
def main(a):
    frame = pd.DataFrame({{"name": list("abab"), "n": [a, 2, 3, {number}]}})
    return frame.groupby("name", as_index=False).sum()
"""
PAUSE_S = 0.05  # until the spare children are there again: the caller's pace decides about them, not the call


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    libraries = find_offered_libraries(DIRECTORY, ["numpy", "pandas"])
    if "pandas" not in libraries.offered:
        print("Run `manage.py install_libraries` first.")
        return
    pool = sandbox.Pool(libraries=libraries)
    text = measured(pool)
    pool.close()
    print(text)
    if not options.no_write:
        page.write_section("Functions with libraries", text)


def measured(pool: sandbox.Pool) -> str:
    began = time.perf_counter()
    call(pool, PANDAS)
    cold = (time.perf_counter() - began) * 1000
    call(pool, PLAIN)
    time.sleep(1)
    warm: dict[str, list[float]] = {PLAIN: [], PANDAS: []}
    for _ in range(60):
        for source, times in warm.items():
            times.append(call(pool, source))
            time.sleep(PAUSE_S)
    first = []
    for number in range(15):
        first.append(call(pool, WORK.format(number=number)))
        time.sleep(PAUSE_S)
    plain, pandas = (statistics.median(warm[source]) for source in (PLAIN, PANDAS))
    server = pool._servers.by_profile["extended+pandas"]
    assert server.isolation in ("full", "reduced")
    rows = [
        ("plain call, spare ready, p50", "", f"{plain:.2f} ms"),
        ("`requires pandas`, spare ready, p50", "≤ 2 x plain", f"{pandas:.2f} ms = {pandas / plain:.2f} x"),
        ("first call of a new source with pandas (group by), server warm, p50", "≤ 150 ms",
         f"{statistics.median(first):.0f} ms (slowest {max(first):.0f})"),
        ("first call of all: the fork server loads pandas", "", f"{cold:.0f} ms"),
    ]  # fmt: skip
    lines = "\n".join(" | ".join(("", *row, "")).strip() for row in rows)
    return f"{introduction()}\n\n| what | target | measured |\n|---|---|---|\n{lines}\n"


def call(pool: sandbox.Pool, source: str) -> float:
    began = time.perf_counter()
    outcome = pool.execute(source, {"a": 1})
    took = (time.perf_counter() - began) * 1000
    assert outcome.ok, outcome
    return took


def introduction() -> str:
    machine = f"{platform.system()} {platform.release().partition('-')[0]}, {platform.machine()}"
    return (
        f"`python -m benchmarks.libraries`, {datetime.date.today()}, Python {platform.python_version()} on {machine}.\n"
        f"Load while measuring: {Path('/proc/loadavg').read_text().split()[0]} on two cores, so read the ratios."
    )


if __name__ == "__main__":
    main()
