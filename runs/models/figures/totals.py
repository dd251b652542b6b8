"""What a run has used. A chain's own run calls no model: its usage is that of the runs below it,
also while they are in progress.

Nothing is stored twice: the sums are read when they are shown, so that budgets, tables and the
dashboard, which add up runs, count each model call once.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, Sum

from runs.models import Run


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, and cost in US dollars."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, other: "Usage") -> "Usage":
        input_tokens = self.input_tokens + other.input_tokens
        output_tokens = self.output_tokens + other.output_tokens
        return Usage(input_tokens, output_tokens, self.cost + other.cost)

    def as_json(self) -> dict[str, Any]:
        # `:f` writes small amounts without an exponent.
        cost = f"{Decimal(self.cost).normalize():f}"
        return {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens, "cost": cost}


NOTHING = Usage()


def total_usage(run: Run) -> Usage:
    """Without a query for an agent's run."""
    return of_all([run])[run.pk]


def of_all(runs: Sequence[Run]) -> dict[UUID, Usage]:
    """The usage of each run, by id: one query for chains at the top of their tree, and one for each
    further level below nested chains.
    """
    chains = [run for run in runs if run.chain_version_id]
    return add_usage_below(runs, chains)


def with_children(runs: Sequence[Run]) -> dict[UUID, Usage]:
    """As `of_all`, but the runs that an agent's run started count too. For pages: the API's usage of
    an agent's run is its own.
    """
    return add_usage_below(runs, runs)


def add_usage_below(runs: Sequence[Run], parents: Sequence[Run]) -> dict[UUID, Usage]:
    """The usage of each run; of the `parents` among them with that of the runs below."""
    below = below_roots([run.pk for run in parents if run.root_id is None])
    below |= below_nested([run.pk for run in parents if run.root_id is not None])
    usages: dict[UUID, Usage] = {}
    for run in runs:
        own = Usage(run.input_tokens, run.output_tokens, Decimal(run.cost))
        usages[run.pk] = own + below.get(run.pk, NOTHING)
    return usages


def below_roots(ids: list[UUID]) -> dict[UUID, Usage]:
    if not ids:
        return {}
    return sum_usage(Run.objects.filter(root_id__in=ids), "root_id")


def below_nested(ids: list[UUID]) -> dict[UUID, Usage]:
    """Level by level: a level has at most as many rows as the chain's steps have items."""
    sums: dict[UUID, Usage] = defaultdict(lambda: NOTHING)
    # Each run of a level, and the chain's run that it counts for.
    tops = {pk: pk for pk in ids}
    while tops:
        children = Run.objects.filter(parent_id__in=list(tops))
        for parent, usage in sum_usage(children, "parent_id").items():
            sums[tops[parent]] += usage
        parents = children.filter(children__isnull=False).order_by().values_list("pk", "parent_id").distinct()
        tops = {pk: tops[parent] for pk, parent in parents}
    return dict(sums)


def sum_usage(runs: QuerySet[Run], by: str) -> dict[UUID, Usage]:
    rows = runs.order_by().values_list(by)
    totals = rows.annotate(
        all_input_tokens=Sum("input_tokens"), all_output_tokens=Sum("output_tokens"), all_cost=Sum("cost")
    )
    return {pk: Usage(*used) for pk, *used in totals}
