"""100,000 calls, many of them ending badly: nothing may be left behind or grow.

python -m benchmarks.soak                # about five minutes on two idle cores, a quarter of an hour on busy ones
python -m benchmarks.soak --count 5000
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

from functions import sandbox

GOOD = "def main(n):\n    print(n)\n    return {'n': n, 'list': list(range(n % 50))}\n"
BAD = {
    "error": "def main(n):\n    raise ValueError(n)\n",
    "memory": "def main(n):\n    return len(bytearray(1 << 30))\n",
    "timeout": "def main(n):\n    while True: pass\n",
    "crash": "import os\ndef main(n):\n    os._exit(n % 7)\n",
    "violation": "import os\ndef main(n):\n    os.write(3, b'noise' * 50)\n",
    "refused": "def main(n):\n    import os\n",
}
LIMITS = sandbox.Limits(timeout_s=0.05, memory_mb=64)
THREADS = 4
GROWTH_KB = 8192


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--count", type=int, default=100_000, help="How many calls.")
    with tempfile.TemporaryDirectory(prefix="muster-soak-") as own:
        os.environ["TMPDIR"] = tempfile.tempdir = own  # what others leave in /tmp is not ours
        problems = soak(arguments.parse_args().count)
    print("\n".join(problems) or "nothing leaked")
    sys.exit(bool(problems))


def soak(calls: int) -> list[str]:
    """What has grown after so many calls, in words."""
    pool = sandbox.Pool(spares=4)
    endings: Counter[str] = Counter()
    run(pool, 1000, endings)
    before, began = state(), time.monotonic()
    step = max(calls // 10, 1)
    for done in range(step, calls + 1, step):
        run(pool, step, endings)
        print(f"{done:>9,} calls  {done / (time.monotonic() - began):6.0f}/s  {describe(state())}", flush=True)
    after = state()
    pool.close()
    leftovers = [name for name, value in state().items() if name in ("children", "zombies") and value]
    print(dict(endings))
    return grown(before, after) + [f"{name} left after close" for name in leftovers]


def run(pool: sandbox.Pool, calls: int, endings: Counter[str]) -> None:
    """So many calls from several threads; one in ten ends badly, in one of the ways."""

    def work(seed: int) -> None:
        dice = random.Random(seed)
        for number in range(calls // THREADS):
            kind = dice.choice(list(BAD)) if dice.random() < 0.1 else "ok"
            source = BAD.get(kind, GOOD)
            outcome = pool.execute(
                source, {"n": number}, limits=LIMITS, safe_mode=kind not in ("crash", "violation"),
                reuse="soak" if kind == "ok" and dice.random() < 0.1 else None,
            )  # fmt: skip
            endings[outcome.status] += 1
            if kind == "ok" and outcome.status == "ok":
                assert outcome.result["n"] == number

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def state() -> dict[str, int]:
    """What a leak would show in."""
    children = psutil.Process().children()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "resident_kb": int(Path("/proc/self/statm").read_text().split()[1]) * 4,
        "threads": threading.active_count(),
        "children": len(children),
        "zombies": sum(is_zombie(child) for child in children),
        "temporary_files": len(os.listdir(tempfile.gettempdir())),
    }


def is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it has ended, and somebody has waited for it
        return False


def grown(before: dict[str, int], after: dict[str, int]) -> list[str]:
    allowed = {"descriptors": 32, "resident_kb": GROWTH_KB, "threads": 0, "children": 2, "zombies": 0,
               "temporary_files": 0}  # fmt: skip
    return [f"{name} grew from {before[name]} to {after[name]}" for name, more in allowed.items()
            if after[name] > before[name] + more]  # fmt: skip


def describe(now: dict[str, int]) -> str:
    return "  ".join(f"{name} {value:,}" for name, value in now.items())


if __name__ == "__main__":
    main()
