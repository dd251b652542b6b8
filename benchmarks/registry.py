"""Finding an agent's live form: from the cache, built anew, and with 10 or 10,000 agents in the table.

`python -m benchmarks.registry` · on an SQLite file of its own.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from benchmarks import site

SIZES = (10, 1_000, 10_000)
TRADES = (
    "invoices",
    "recipes",
    "flights",
    "contracts",
    "backups",
    "meetings",
    "charts",
    "translation",
    "hiring",
    "books",
)


def main() -> None:
    site.set_up()
    measure()


def measure() -> None:
    """Print the table of docs/benchmarks.md."""
    from django.contrib.auth import get_user_model

    from agents.models import Agent, Provider
    from registry import factory
    from registry.routing import router

    person = get_user_model().objects.create_user("bench")
    provider = Provider.objects.create(name="bench", kind="offline")
    print(f"\n{'':52} {'median ms':>10} {'p95 ms':>10}")
    for size in SIZES:
        missing, began = size - Agent.objects.count(), time.perf_counter()
        make_agents(provider, Agent.objects.count(), size)
        print(f"{f'created and published to {size:,}, each second':52} {missing / (time.perf_counter() - began):10.0f}")
        one = Agent.objects.named(person, "bench-0")
        show("hit: an agent at hand to its live form", partial(factory.live_agent, one), 2000)
        show("miss: built from its rows", partial(factory.build_published, one), 200)
        names = [f"bench-{number}" for number in range(size)]
        show(f"a random one of {size:,}, by name as the intake does", partial(pick_one, person, names), 300)
        if size <= 1_000:
            ask = partial(router.route, person, "Please look after the unpaid invoices of May")
            show(f"routing among {size:,}, query included", ask, 30)


def make_agents(provider: Any, first: int, end: int) -> None:
    """In bulk: working rows, their versions, then the pointers."""
    from agents.models import Agent, AgentVersion

    new = [
        Agent(
            name=f"bench-{number}",
            provider=provider,
            system_prompt="Add.",
            description=f"Looks after {TRADES[number % 10]} of branch {number}.",
            capabilities=[f"{TRADES[number % 10]} {number}"],
        )
        for number in range(first, end)
    ]
    agents = Agent.objects.bulk_create(new, batch_size=500)
    specs = [agent.draft_spec() for agent in agents]
    versions = [
        AgentVersion(agent=agent, number=1, sha256=spec.sha256(), spec=spec.model_dump(mode="json"))
        for agent, spec in zip(agents, specs, strict=True)
    ]
    for agent, version in zip(agents, AgentVersion.objects.bulk_create(versions, batch_size=500), strict=True):
        agent.published = version
    Agent.objects.bulk_update(agents, ["published"], batch_size=500)
    Agent.objects.filter(pk__in=[agent.pk for agent in agents[:500]]).refresh_live_hashes()
    for start in range(500, len(agents), 500):
        Agent.objects.filter(pk__in=[agent.pk for agent in agents[start : start + 500]]).refresh_live_hashes()


def pick_one(person: Any, names: list[str]) -> Any:
    from agents.models import Agent
    from registry import factory

    return factory.live_agent(Agent.objects.named(person, random.choice(names)))


def show(what: str, work: Callable[[], Any], rounds: int) -> None:
    work()
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    seconds.sort()
    print(f"{what:52} {median(seconds) * 1000:10.4f} {seconds[int(rounds * 0.95)] * 1000:10.4f}")


if __name__ == "__main__":
    main()
