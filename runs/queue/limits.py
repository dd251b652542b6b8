"""How many runs of an agent, a provider or a team may be in work at the same time, over all workers.

A worker takes the best row of the queue without looking at limits, and counts under a lock. If a
limit is reached, it takes nothing and chooses again, among the rows of agents and chains that have
room. An index leads to the first rows of each agent and chain, so the number of rows that a limit
holds back makes no difference.
"""

from typing import Any

from django.db import models
from django.db.models import Count, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce

from agents.models import Agent, ChainVersion, Provider, Team
from plumbing.statements import Select, Update
from runs.models import Run
from runs.models.run import CLAIM, build_claim_columns

from .fair_queue import QUEUE, best, order_queue, ready

FEW = 16  # rows to choose from, since other workers may be taking the first of them
Position = tuple[int, int, Any]  # priority, place, id


class LimitReached(Exception):
    """The agent, provider or team of the chosen run has as many runs in work as it may: choose
    again.
    """


# -- counting ---------------------------------------------------------------------------------------------------------


def limits(run: Run) -> list[tuple[Any, Any, int]]:
    """(model, key, limit) of what limits this claimed run, in the order in which the rows are locked."""
    agent, seen = run.agent, run.seen
    bounds: list[tuple[Any, Any, int | None]] = []
    if agent is not None:
        bounds.append((Agent, agent.pk, agent.max_running))
        bounds.append((Provider, agent.provider_id, seen.provider_limit))
    bounds.append((Team, seen.team, seen.team_limit))
    return [(model, key, limit) for model, key, limit in bounds if limit is not None]


def check_limits(run: Run) -> None:
    """Raises LimitReached if there are too many with this claimed run. Two workers that choose at the
    same moment do not see each other's choice on PostgreSQL, so the runs in work are counted under a
    lock.
    """
    for model, key, limit in limits(run):
        locked = model.objects.select_for_update(no_key=True).filter(pk=key)
        list(locked.order_by().values_list("pk"))
        running = at_work().filter(OF[model](key))
        if running.count() > limit:
            raise LimitReached


OF = {
    Agent: lambda key: Q(agent=key),
    Provider: lambda key: Q(agent__provider=key),
    Team: lambda key: Q(agent__team=key) | Q(chain_version__chain__team=key),
}


def at_work() -> Any:
    """Only a run in work has a lease."""
    return Run.objects.filter(lease_expires_at__isnull=False)


# -- choosing among those with room -----------------------------------------------------------------------------------


def take_within_limits(*, pool: str, floor: int, **claim: Any) -> list[Any]:
    """Like `fair_queue.CHOOSE.keys`, without runs of agents, providers and teams that are at their limit."""
    keys = list_candidates(pool, floor)
    if not keys:
        return []
    # The statement takes a fixed number of keys, so that it is compiled once: the last one is repeated.
    padding = FEW - len(keys)
    keys += [keys[-1]] * padding
    slots = {f"key{number}": key for number, key in enumerate(keys)}
    chosen_keys = CHOOSE_OF.keys(**slots, **claim)
    if not chosen_keys:
        raise LimitReached  # other workers are taking all of them, and may be refused
    return chosen_keys


def list_candidates(pool: str, floor: int) -> list[Any]:
    """The keys of the best rows whose agents and chains have room, the best first."""
    queue = {"pool": pool, "floor": floor}
    positions: list[Position] = WITHOUT_OWNER.all(**queue)
    heads = OF_AGENTS.all(**queue) + OF_CHAINS.all(**queue)
    for *first, agent, version in sorted(heads):
        # Neither this owner nor those behind it have a row that is better than the last one found.
        if len(positions) == FEW and positions[-1] < tuple(first):
            break
        if agent is None:
            rows = ROWS_OF_CHAIN.all(**queue, version=version)
        else:
            rows = ROWS_OF_AGENT.all(**queue, agent=agent)
        positions = sorted([*positions, *rows])[:FEW]
    return [key for _, _, key in positions]


def agents_with_room() -> Any:
    of_full_provider = full(Provider, agent__provider=OuterRef("pk"))
    agents = Agent.objects.order_by()
    agents = agents.exclude(pk__in=full(Agent, agent=OuterRef("pk")))
    agents = agents.exclude(provider__in=of_full_provider)
    return agents.exclude(team__in=full_teams())


def chains_with_room() -> Any:
    return ChainVersion.everything.order_by().exclude(chain__team__in=full_teams())


def full_teams() -> Any:
    of_team = Q(agent__team=OuterRef("pk")) | Q(chain_version__chain__team=OuterRef("pk"))
    return full(Team, of_team)


def full(model: Any, *ours: Q, **of_row: Any) -> Any:
    """The keys of rows of this model that have reached their `max_running`."""
    running = at_work().filter(*ours, **of_row).order_by()
    counted = running.values("status").annotate(number=Count("pk")).values("number")
    number = Coalesce(Subquery(counted), Value(0))
    at_limit = model.objects.filter(max_running__isnull=False, max_running__lte=number)
    return at_limit.order_by().values("pk")


def query_owner_rows(at: Any, owner: str, key: Any) -> Any:
    """The rows of one agent or chain, in order. Written as a range that is sorted by the owner too:
    PostgreSQL would otherwise expect to find one soon in the index of the whole queue.
    """
    rows = ready(at).filter(**{f"{owner}__gte": key, f"{owner}__lte": key})
    return rows.order_by(owner, "priority", "place", "id")


def firsts(at: Any, owners: Any, owner: str) -> Any:
    """The first row of each owner."""
    first = query_owner_rows(at, owner, OuterRef("pk")).values("pk")[:1]
    heads = owners.annotate(first=Subquery(first)).values("first")
    rows = order_queue(Run.objects.filter(pk__in=heads))
    return rows.values_list(*POSITION, "agent", "chain_version")[:FEW]


POSITION = ("priority", "place", "pk")
OWNER = models.BigIntegerField()
OF_AGENTS = Select(lambda at: firsts(at, agents_with_room(), "agent_id"), **QUEUE)
OF_CHAINS = Select(lambda at: firsts(at, chains_with_room(), "chain_version_id"), **QUEUE)
ROWS_OF_AGENT = Select(
    lambda at: query_owner_rows(at, "agent_id", at.agent).values_list(*POSITION)[:FEW], **QUEUE, agent=OWNER
)
ROWS_OF_CHAIN = Select(
    lambda at: query_owner_rows(at, "chain_version_id", at.version).values_list(*POSITION)[:FEW], **QUEUE, version=OWNER
)
# Runs whose agent is chosen by a worker: no limit holds them back.
WITHOUT_OWNER = Select(
    lambda at: order_queue(ready(at).filter(agent=None, chain_version=None)).values_list(*POSITION)[:FEW], **QUEUE
)
KEYS: dict[str, models.Field] = {f"key{number}": models.UUIDField() for number in range(FEW)}
CHOOSE_OF = Update(
    lambda at: (
        Run.objects.filter(
            pk=best(Run.objects.filter(place__isnull=False, pk__in=[getattr(at, key) for key in KEYS]).claimable())
        ),
        build_claim_columns(at),
    ),
    **KEYS,
    **CLAIM,
)
