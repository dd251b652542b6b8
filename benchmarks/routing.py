"""The share of labelled messages that each routing method sends right, and what routing among 1,000 agents costs.

`python -m benchmarks.routing` measures words and capabilities. With `--embeddings http://127.0.0.1:8160/v1` (such as
benchmarks/embedding_server.py) and with `--model URL --model-name NAME` (an OpenAI-compatible server; its key in
MUSTER_BENCH_KEY) it measures those too. Half of the set was written before the router, half after it and never tuned
on; they are printed apart. -v shows what went wrong, in the first half alone. An SQLite file of its own.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import yaml

from benchmarks import site

HERE = Path(__file__).parent / "routing_set"
MESSAGE = "Please compute the mean of the invoices not paid in May"
Methods = dict[str, Sequence[str] | None]


def main() -> None:
    options = read_options()
    set_up(options)
    from django.conf import settings

    profiles = read_profiles()
    methods: Methods = {
        "capability": ["capability"],
        "words": ["words"],
        "capability, then words": ["capability", "words"],
    }
    if settings.ROUTER_EMBEDDINGS:
        methods |= {"embeddings": ["embeddings"], "all but the classifier": ["capability", "embeddings", "words"]}
    if settings.ROUTER_MODEL:
        methods |= {"classifier": ["classifier"], "everything": None}
    for half in ("before", "after"):
        print_table(half, profiles, methods, show=options.v and half == "before")
    print_costs(profiles)


def read_options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--embeddings", default="", help="base URL of an OpenAI-compatible embedding server")
    options.add_argument("--embeddings-name", default="all-minilm-l6-v2")
    options.add_argument("--model", default="", help="base URL of an OpenAI-compatible model server")
    options.add_argument("--model-name", default="")
    options.add_argument("-v", action="store_true", help="show what went wrong in the first half")
    return options.parse_args()


def set_up(options: argparse.Namespace) -> None:
    """A fresh database with a provider for each server that was named."""
    site.set_up_for_models(f"meaning:{options.embeddings_name}" if options.embeddings else "")
    from django.conf import settings

    settings.ROUTER_MODEL = f"mind:{options.model_name}" if options.model else ""
    for name, url in (("meaning", options.embeddings), ("mind", options.model)):
        if url:
            site.add_server(name, url)


def print_table(half: str, profiles: list[Any], methods: Methods, *, show: bool) -> None:
    messages = yaml.safe_load((HERE / f"{half}.yaml").read_text())
    print(f"\n{len(messages)} messages over {len(profiles)} agents, written {half} the router")
    print(f"{'method':28} {'right':>7} {'wrong':>7} {'nobody':>7}   of those answered")
    for name, chosen in methods.items():
        print(row(name, *judged(profiles, messages, chosen, show=show)))


def read_profiles() -> list[Any]:
    from agents.models import AgentSpec
    from registry.routing.profiles import build_profile

    agents = yaml.safe_load((HERE / "agents.yaml").read_text())
    return [build_profile(AgentSpec(**agent), number, str(number)) for number, agent in enumerate(agents, start=1)]


def judged(
    profiles: list[Any], messages: list[Any], methods: Sequence[str] | None, *, show: bool
) -> tuple[int, int, int]:
    """(right, wrong, wrongly nobody). Nobody is right where the label says so."""
    from registry.routing.router import decide_route

    right = wrong = silent = 0
    for text, label in messages:
        decision = decide_route(profiles, text, methods=methods)
        agent = decision.profile.name if decision.profile else "nobody"
        right += agent == label
        wrong += agent not in (label, "nobody")
        silent += agent == "nobody" != label
        if show and agent != label:
            tops = ", ".join(f"{one.agent} {one.score} ({one.reason})" for one in decision.candidates[:2])
            print(f"    {text!r}: {agent}, not {label} [{tops}]")
    return right, wrong, silent


def row(name: str, right: int, wrong: int, silent: int) -> str:
    total = right + wrong + silent
    answered = right + wrong
    sure = f"{right / answered:.0%}" if answered else "–"
    return f"{name:28} {right / total:7.0%} {wrong / total:7.0%} {silent / total:7.0%}   {sure} right"


def print_costs(profiles: list[Any], agents: int = 1000) -> None:
    """What it takes to decide among many agents: alone, and with the query that lists them."""
    from dataclasses import replace

    from registry.routing.router import decide_route, route

    crowd = [
        replace(profiles[number % len(profiles)], id=number, name=f"{profiles[number % len(profiles)].name}-{number}")
        for number in range(agents)
    ]
    print(f"\n{f'among {agents:,} agents, without a model call':44} {'CPU ms':>8} {'best':>8} {'wall ms':>8}")
    show("deciding alone", partial(decide_route, crowd, MESSAGE, methods=["capability", "words"]))
    person = make_agents(agents)
    show("with the query that lists them", partial(route, person, MESSAGE, methods=["capability", "words"]))


def make_agents(agents: int) -> Any:
    from django.contrib.auth import get_user_model

    from agents.models import Provider
    from benchmarks import registry

    provider = Provider.objects.create(name="bench", kind="offline")
    registry.make_agents(provider, 0, agents)
    return get_user_model().objects.create_user("bench")


def show(what: str, work: Callable[[], Any], rounds: int = 50) -> None:
    """Medians, and the best CPU time: what the machine's other work does not touch."""
    work()
    cpu, wall = [], []
    for _ in range(rounds):
        began, worked = perf_counter(), thread_time()
        work()
        cpu.append((thread_time() - worked) * 1000)
        wall.append((perf_counter() - began) * 1000)
    print(f"{what:44} {median(cpu):8.1f} {min(cpu):8.1f} {median(wall):8.1f}")


if __name__ == "__main__":
    main()
