"""`python -m tests.simulation --seeds 1000`, or `--seed 42` to see what happens in one."""

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import django

ROOT = Path(__file__).parents[2]


def main() -> int:
    given = arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of texts have the same order each time
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    if given.seed is not None:
        return show([given.seed], given)
    shares = [
        range(given.first + place, given.first + given.seeds, given.processes) for place in range(given.processes)
    ]
    if given.processes == 1:
        return show(shares[0], given)
    children = [get_context("spawn").Process(target=run_share, args=(share, given)) for share in shares]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return max(child.exitcode or 0 for child in children)


def arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with its trace")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no seed after so much CPU time")
    parser.add_argument("--without", choices=("fence", "record"), default="", help="take a rule away")
    parser.add_argument("--each", action="store_true", help="one fault a seed: a death at each moment, one by one")
    parser.add_argument("--death", type=int, help="with --seed: only the death of this number")
    parser.add_argument("--resume", action="store_true", help="go on where the last run of the same code stopped")
    return parser.parse_args()


def run_share(share: range, given: Any) -> None:
    sys.exit(show(share, given))


def show(seeds: Any, given: Any) -> int:
    """Run these seeds until one fails: 1 if one did."""
    prepare()
    from .simulation import Simulation  # which needs Django

    simulation, began = Simulation(given.without), time.process_time()
    kept = Kept(seeds, given) if given.resume else None
    outcomes, done, failed = each_outcome(simulation, kept.left() if kept else seeds, given), 0, []
    for outcome in outcomes:
        done += 1
        if done == 1 and simulation.run(outcome.seed, outcome.death).trace != outcome.trace:
            outcome.violations.append("the seed does not repeat itself")
        if outcome.violations:
            print(report(outcome, given.without), flush=True)
            failed.append(outcome.seed)
            if len(failed) >= given.failures:
                return 1
        elif given.seed is not None:
            print(*outcome.trace, sep="\n")
        elif kept and done % 100 == 0:
            kept.note(outcome.seed)
        if time.process_time() - began > given.seconds:
            break
    verdict = f"failed: {failed}" if failed else "nothing lost, doubled or stuck"
    print(f"{done} seeds in {time.process_time() - began:.1f} s: {verdict}")
    return bool(failed)


def each_outcome(simulation: Any, seeds: Iterable[int], given: Any) -> Iterator[Any]:
    for seed in seeds:
        if not given.each:
            yield simulation.run(seed, given.death)
            continue
        undisturbed = simulation.run(seed, death=0)
        yield undisturbed
        for death in range(1, undisturbed.chances + 1):
            yield simulation.run(seed, death)


class Kept:
    """The seeds of one share that have passed, in a file of the data directory."""

    def __init__(self, seeds: range, given: Any) -> None:
        from plumbing.release import release

        name = f"{release()}-{seeds.start}-{seeds.stop}-{seeds.step}-{given.without}{'-each' * given.each}"
        self.seeds, self.file = seeds, ROOT / "var" / "simulation" / name
        self.file.parent.mkdir(parents=True, exist_ok=True)

    def left(self) -> range:
        last = int(self.file.read_text()) if self.file.exists() else None
        return self.seeds if last is None else range(last, self.seeds.stop, self.seeds.step)

    def note(self, seed: int) -> None:
        """The seed may be half done, so it comes again after a stop."""
        beside = self.file.with_suffix(".new")
        beside.write_text(str(seed))
        beside.replace(self.file)
        print(f"up to seed {seed} of {self.seeds.stop - 1}", flush=True)


def prepare() -> None:
    """Django, with a database in memory."""
    os.environ["MUSTER_DATA_DIR"] = tempfile.mkdtemp(prefix="muster-simulation-")
    os.environ.pop("DB", None)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()
    from . import database

    logging.disable()
    database.create()


def report(outcome: Any, without: str) -> str:
    again = f"python -m tests.simulation --seed {outcome.seed}" + (f" --without {without}" if without else "")
    again += f" --death {outcome.death}" if outcome.death is not None else ""
    return "\n".join([*outcome.trace, "", f"Seed {outcome.seed} fails:", *outcome.violations, f"Again: {again}"])


if __name__ == "__main__":
    sys.exit(main())
