"""The share of labelled messages that each routing method sends right, and what routing among 1,000 agents costs.

`python -m benchmarks.routing` · words and capabilities always; with MUSTER_ROUTER_EMBEDDINGS or MUSTER_ROUTER_MODEL set
(and a provider of that name in the database) those as well. Half of the set was written before the router, half after
it and never tuned on; they are printed apart. -v shows what went wrong.
"""

import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import django
import yaml

HERE = Path(__file__).parent / "routing_set"


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from django.conf import settings

    profiles = read_profiles()
    methods = {"capability": ["capability"], "words": ["words"], "capability, then words": ["capability", "words"]}
    if settings.ROUTER_EMBEDDINGS:
        methods |= {"embeddings": ["embeddings"], "all but the classifier": ["capability", "embeddings", "words"]}
    if settings.ROUTER_MODEL:
        methods |= {"classifier": ["classifier"], "everything": None}
    for half in ("before", "after"):
        messages = yaml.safe_load((HERE / f"{half}.yaml").read_text())
        print(f"\n{len(messages)} messages over {len(profiles)} agents, written {half} the router")
        print(f"{'method':28} {'right':>7} {'wrong':>7} {'nobody':>7}   of those answered")
        for name, chosen in methods.items():
            print(row(name, *judged(profiles, messages, chosen, show="-v" in sys.argv)))
    print(f"\nrouting among 1,000 agents without a model: {cost(profiles) * 1000:.1f} ms median")


def read_profiles() -> list[Any]:
    from agents.spec import AgentSpec
    from registry.profiles import profile_of

    agents = yaml.safe_load((HERE / "agents.yaml").read_text())
    return [profile_of(AgentSpec(**agent), number, str(number)) for number, agent in enumerate(agents, start=1)]


def judged(profiles: list[Any], messages: list[Any], methods: list[str] | None, *, show: bool) -> tuple[int, int, int]:
    """(right, wrong, wrongly nobody). Nobody is right where the label says so."""
    from registry.router import decide

    right = wrong = silent = 0
    for text, label in messages:
        decision = decide(profiles, text, methods=methods)
        found = decision.profile.name if decision.profile else "nobody"
        right += found == label
        wrong += found not in (label, "nobody")
        silent += found == "nobody" != label
        if show and found != label:
            tops = ", ".join(f"{one.agent} {one.score} ({one.reason})" for one in decision.candidates[:2])
            print(f"    {text!r}: {found}, not {label} [{tops}]")
    return right, wrong, silent


def row(name: str, right: int, wrong: int, silent: int) -> str:
    total = right + wrong + silent
    answered = right + wrong
    sure = f"{right / answered:.0%}" if answered else "–"
    return f"{name:28} {right / total:7.0%} {wrong / total:7.0%} {silent / total:7.0%}   {sure} right"


def cost(profiles: list[Any], agents: int = 1000, rounds: int = 30) -> float:
    """Seconds to decide among many agents whose profiles are kept; without the one query that lists them."""
    from dataclasses import replace

    from registry.router import decide

    crowd = [
        replace(profiles[number % len(profiles)], id=number, name=f"{profiles[number % len(profiles)].name}-{number}")
        for number in range(agents)
    ]
    times = []
    for _ in range(rounds):
        began = perf_counter()
        decide(crowd, "Please compute the mean of the invoices not paid in May", methods=["capability", "words"])
        times.append(perf_counter() - began)
    return median(times)


if __name__ == "__main__":
    main()
