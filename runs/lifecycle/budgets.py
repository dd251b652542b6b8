"""Is there budget left? Asked before every model call, answered from run rows."""

import math
import time
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, IntegerField, Q, QuerySet, Sum
from django.utils import timezone

from agents.models.team import Membership
from plumbing.prepared import Select
from runs.exceptions import RunEnded
from runs.models import Budget, Run

FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used in a period: tokens (input + output), US dollars, runs started."""

    tokens: int
    cost: Decimal
    runs: int


class Watch:
    """The budgets of one run at work. Limits are read again after a second; what was spent is read each time.

    The claim of a run has seen whether any budget covers it: mostly none does, and then none is read.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.budgets: list[Budget] = []
        is_free = run.seen is not None and not run.seen.is_budgeted and run.root_id is None
        self.read_at = run.seen.at if run.seen and is_free else -math.inf

    def require(self) -> None:
        """Raises RunEnded(budget_exhausted) when any budget that covers this run is used up."""
        if time.monotonic() - self.read_at > FRESH_S:
            self.budgets, self.read_at = covering(self.run), time.monotonic()
        for budget in self.budgets:
            if reason := overdrawn(budget, self.run):
                raise RunEnded(Run.Status.FAILED, "budget_exhausted", reason)


def covering(run: Run) -> list[Budget]:
    """Budgets of the principal, the agent, their teams, and of everyone; in a child run also what its root may use."""
    found = COVERING.all(user=run.principal_id, agent=run.agent_id)
    if run.root_id is None:
        return found
    root_agent = Run.objects.filter(pk=run.root_id).values_list("agent_id", flat=True).first()
    of_root = COVERING.all(user=run.principal_id, agent=root_agent)
    known = {budget.pk for budget in found}
    return found + [one for one in of_root if one.period == Budget.Period.RUN and one.pk not in known]


def of_work(user: Any, agent: Any, *, member: Any) -> QuerySet:
    """Enabled budgets of what this user does with this agent; `member` is the user as a query within it names them.

    One that names several (a user and an agent, say) limits only what is both.
    """
    return Budget.objects.filter(
        Q(user=None) | Q(user_id=user),
        Q(agent=None) | Q(agent_id=agent),  # a run without an agent compares with NULL, which nothing equals
        Q(team=None) | Q(team_id__in=Membership.objects.filter(user_id=member).values("team_id")),
        enabled=True,
    )


COVERING = Select(lambda at: of_work(at.user, at.agent, member=at.user), user=IntegerField(), agent=IntegerField())


def overdrawn(budget: Budget, run: Run) -> str:
    """Why this budget refuses, or nothing. Runs already started count for themselves."""
    spent = spent_of(budget, run)
    if budget.max_tokens is not None and spent.tokens >= budget.max_tokens:
        return f"{budget}: {spent.tokens} of {budget.max_tokens} tokens are used"
    if budget.max_cost is not None and spent.cost >= budget.max_cost:
        return f"{budget}: {spent.cost} of {budget.max_cost} US dollars are used"
    if budget.max_runs is not None and spent.runs > budget.max_runs:
        return f"{budget}: {budget.max_runs} runs were started"
    return ""


def spent_of(budget: Budget, run: Run, now: datetime | None = None) -> Spent:
    """Stored use of the period, plus what this run has used since its row was written."""
    if budget.period == Budget.Period.RUN:
        runs: QuerySet[Run] = Run.objects.filter(Q(pk=run.root_pk) | Q(root_id=run.root_pk))
    else:
        runs = in_scope(budget).filter(created_at__gte=start_of(budget.period, now or timezone.now()))
    used = total(runs.exclude(pk=run.pk))
    return Spent(used.tokens + run.input_tokens + run.output_tokens, used.cost + Decimal(run.cost), used.runs + 1)


def in_scope(budget: Budget) -> QuerySet[Run]:
    runs = Run.objects.all()
    if budget.agent_id:
        runs = runs.filter(agent_id=budget.agent_id)
    if budget.user_id:
        runs = runs.filter(principal_id=budget.user_id)
    if budget.team_id:
        members = Membership.objects.filter(team_id=budget.team_id).values("user_id")
        runs = runs.filter(principal_id__in=members)
    return runs


def total(runs: QuerySet[Run]) -> Spent:
    sums = runs.aggregate(tokens=Sum(F("input_tokens") + F("output_tokens")), cost=Sum("cost"), runs=Count("pk"))
    return Spent(sums["tokens"] or 0, Decimal(sums["cost"] or 0), sums["runs"])


def start_of(period: str, now: datetime) -> datetime:
    """Midnight UTC of the day, or of the month's first."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return day.replace(day=1) if period == Budget.Period.MONTH else day
