"""`python -m tests.simulation --seeds 1000`, or `--seed 42` to see what happens in one."""

import argparse
import logging
import os
import sys
import tempfile
import time
from multiprocessing import get_context
from typing import Any

import django


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
    parser.add_argument("--without", choices=("fence", "record-before-call"), default="", help="take a rule away")
    return parser.parse_args()


def run_share(share: range, given: Any) -> None:
    sys.exit(show(share, given))


def show(seeds: Any, given: Any) -> int:
    """Run these seeds until one fails: 1 if one did."""
    prepare()
    from .simulation import Simulation  # which needs Django

    simulation, done = Simulation(given.without), 0
    began = time.process_time()
    failed: list[int] = []
    for seed in seeds:
        if time.process_time() - began > given.seconds:
            break
        outcome = simulation.run(seed)
        done += 1
        if done == 1 and simulation.run(seed).trace != outcome.trace:
            outcome.violations.append("the seed does not repeat itself")
        if outcome.violations:
            print(report(outcome, given.without), flush=True)
            failed.append(seed)
            if len(failed) >= given.failures:
                return 1
        if given.seed is not None:
            print(*outcome.trace, sep="\n")
        elif done % 10_000 == 0:
            print(f"{done} seeds, the last was {seed}", flush=True)
    verdict = f"failed: {failed}" if failed else "nothing lost, doubled or stuck"
    print(f"{done} seeds in {time.process_time() - began:.1f} s: {verdict}")
    return bool(failed)


def prepare() -> None:
    """Django with a database in memory."""
    os.environ["MUSTER_DATA_DIR"] = tempfile.mkdtemp(prefix="muster-simulation-")
    os.environ.pop("DB", None)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()
    from django.conf import settings
    from django.db import connection

    logging.disable()
    settings.APPROVAL_S = 60
    settings.DATABASES["default"]["TEST"] |= {"NAME": ":memory:", "MIGRATE": False}
    connection.creation.create_test_db(verbosity=0, serialize=False)


def report(outcome: Any, without: str) -> str:
    again = f"python -m tests.simulation --seed {outcome.seed}" + (f" --without {without}" if without else "")
    return "\n".join([*outcome.trace, "", f"Seed {outcome.seed} fails:", *outcome.violations, f"Again: {again}"])


if __name__ == "__main__":
    sys.exit(main())
