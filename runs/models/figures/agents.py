"""What the lists and pages of agents and chains show besides the rows: figures of a month, and what uses them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Max, Q, Sum

from agents.models import Agent, Chain, ChainStep, Tool, ToolGrant
from plumbing import clock
from runs.models import Run, Schedule, Trigger

from .earlier import build_first_id

MONTH = timedelta(days=30)
# Of each kind.
MOST = 200


@dataclass(frozen=True, slots=True)
class Month:
    """One person's runs of one agent or chain in the last 30 days. Cost in US dollars."""

    runs: int = 0
    failed: int = 0
    cost: Decimal = Decimal(0)
    last: datetime | None = None


def months(agents: Iterable[Agent], user: Any, now: datetime | None = None) -> dict[int, Month]:
    """By the agent's id, in one query; agents without runs are left out."""
    return count_runs_by_target("agent", agents, user, now)


def months_of_chains(chains: Iterable[Chain], user: Any, now: datetime | None = None) -> dict[int, Month]:
    """The same by the chain's id."""
    return count_runs_by_target("chain_version__chain", chains, user, now)


def count_runs_by_target(what: str, rows: Iterable[Agent | Chain], user: Any, now: datetime | None) -> dict[int, Month]:
    now = now or clock.near()
    since = build_first_id(now - MONTH)
    targets = {f"{what}__in": [row.pk for row in rows]}
    runs = Run.objects.visible_to(user).filter(**targets, pk__gte=since).order_by()
    has_failed = Q(status__in=[Run.Status.FAILED, Run.Status.EXPIRED])
    counts = runs.values(of=F(what)).annotate(
        runs=Count("pk"),
        failed=Count("pk", filter=has_failed),
        spent=Sum("cost"),
        last=Max("created_at"),
    )
    figures = {}
    for row in counts:
        cost = row["spent"] or Decimal(0)
        figures[row["of"]] = Month(row["runs"], row["failed"], cost, row["last"])
    return figures


def find_target_uses(row: Agent | Chain, user: Any) -> list[dict[str, str]]:
    """[{"kind", "name"}]: what calls or starts this agent or chain, of the rows that this person can see."""
    uses = find_grants(row, user)
    uses += find_steps(row, user)
    uses += find_starters(row, user)
    return uses


def find_grants(row: Agent | Chain, user: Any) -> list[dict[str, str]]:
    """The agents and chains that may call it as a tool."""
    tools = Tool.objects.filter(**row.listed_as())
    is_of_agent = Q(agent__in=Agent.objects.visible_to(user))
    is_of_chain = Q(chain__in=Chain.objects.visible_to(user))
    grants = ToolGrant.objects.filter(tool__in=tools).select_related("agent", "chain")
    grants = grants.filter(is_of_agent | is_of_chain).order_by("agent__name", "chain__name", "pk")
    uses: list[dict[str, str]] = []
    for grant in grants[:MOST]:
        if grant.agent:
            uses.append(one("agent", grant.agent))
        else:
            uses.append(one("chain", grant.chain))
    return uses


def find_steps(row: Agent | Chain, user: Any) -> list[dict[str, str]]:
    """The steps of chains that name it."""
    kind = str(row._meta.model_name)
    chains = Chain.objects.visible_to(user)
    steps = ChainStep.objects.filter(target_kind=kind, target=row.name, chain__in=chains)
    uses: list[dict[str, str]] = []
    for step in steps.select_related("chain").order_by("chain__name", "pk")[:MOST]:
        if means(step.chain, row):
            uses.append({"kind": "step", "name": f"{step.chain.name}/{step.key}"})
    return uses


def find_starters(row: Agent | Chain, user: Any) -> list[dict[str, str]]:
    """The schedules and triggers that start it."""
    target = {str(row._meta.model_name): row}
    uses: list[dict[str, str]] = []
    for model in (Schedule, Trigger):
        starters = model.objects.visible_to(user).filter(**target).order_by("name")
        uses += [one(model._meta.verbose_name_raw, starter) for starter in starters[:MOST]]
    return uses


def one(kind: str, row: Any) -> dict[str, str]:
    return {"kind": kind, "name": row.name}


def means(chain: Chain, row: Agent | Chain) -> bool:
    """Whether a step of this chain can name the agent or chain: its owner's, the site's, or its team's."""
    if row.owner_id in (None, chain.owner_id):
        return True
    return row.team_id is not None and row.team_id == chain.team_id
