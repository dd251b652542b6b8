"""`python -m tests.hosts`: every scenario. `python -m tests.hosts partition kills --seed 42`: these, as that seed decides."""

import argparse
import random
import sys
import time
import traceback
from typing import Any

from . import network


def main() -> int:
    given = arguments()
    if not network.is_apart():
        if refusal := network.refusal():
            print(f"Skipped: {refusal}")
            return 0
        network.go_apart("tests.hosts")
    from . import scenarios
    from .world import world

    chosen = [one for one in scenarios.ALL if not given.scenarios or one.__name__ in given.scenarios]
    began = time.monotonic()
    with world(is_long=given.long) as made:
        print(f"three hosts are ready after {time.monotonic() - began:.0f} s", flush=True)
        for number in range(given.seeds):
            seed = (given.seed or random.SystemRandom().randrange(1, 1_000_000)) + number
            for scenario in chosen:
                if not carry_out(scenario, made, seed):
                    return 1
    return 0


def arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.hosts", description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="their names; default all")
    parser.add_argument("--seed", type=int, help="the first seed; default any")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--long", action="store_true", help="more kills, a backlog of 20,000 runs, 2,000 lost runs")
    return parser.parse_args()


def carry_out(scenario: Any, made: Any, seed: int) -> bool:
    name, began = scenario.__name__, time.monotonic()
    made.chance.seed(f"{name} {seed}")
    print(f"{name}, seed {seed}", flush=True)
    try:
        scenario(made)
    except Exception:  # whatever it is, the seed has to be said
        traceback.print_exc(file=sys.stdout)
        print(f"{made.site.last_words()}\nFAILED. Again: python -m tests.hosts {name} --seed {seed}", flush=True)
        return False
    print(f"    ok after {time.monotonic() - began:.1f} s", flush=True)
    return True


sys.exit(main())
