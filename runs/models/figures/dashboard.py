"""Figures about runs, for the dashboard: a constant number of bounded queries, whatever the history."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from statistics import mean, pstdev
from typing import Any

from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from agents.models import Agent
from runs.models import Run, ToolCallRecord

from . import money
from .earlier import build_first_id, counted_before

# Days of the history, today included.
DAYS = 14
# The newest runs used for latency.
RECENT = 500
# The newest calls used to find failing tools.
CALLS = 1000
ENDED_BADLY = ("failed", "expired", "partial")


@dataclass
class Day:
    date: date
    counts: Counter = field(default_factory=Counter)
    cost: Decimal = Decimal(0)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def ended(self) -> int:
        return sum(self.counts[status] for status in Run.DONE)

    @property
    def failed(self) -> int:
        return sum(self.counts[status] for status in ENDED_BADLY)

    @property
    def error_rate(self) -> float:
        if not self.ended:
            return 0.0
        return self.failed / self.ended


@dataclass
class History:
    """Runs of the last days, in one pass over them."""

    days: list[Day]
    agents: list[dict[str, Any]]
    earlier_counted_at: datetime

    @property
    def today(self) -> Day:
        return self.days[-1]

    @property
    def total(self) -> int:
        return sum(day.total for day in self.days)


def history(runs: QuerySet[Run], now: datetime | None = None) -> History:
    """Counts and cost of the last DAYS days in the viewer's zone, by day and status, and the most
    active agents.
    """
    now = timezone.localtime(now)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    start = today - timedelta(days=DAYS - 1)
    counted_at, earlier = counted_before(runs, start, today, now, group_runs_by_day, name="dashboard")
    of_today = group_runs_by_day(runs.filter(pk__gte=build_first_id(today)))
    days = build_empty_days(start.date())
    agents: dict[int, dict[str, Any]] = defaultdict(lambda: {"count": 0, "failed": 0, "cost": Decimal(0)})
    for row in [*earlier, *of_today]:
        cost = row["cost"] or 0
        # The id of a run and its time of creation may lie on two sides of midnight.
        day = days.setdefault(row["day"], Day(row["day"]))
        day.counts[row["status"]] += row["count"]
        day.cost += cost
        if row["agent_id"]:
            agent = agents[row["agent_id"]]
            agent["count"] += row["count"]
            agent["cost"] += cost
            if row["status"] in ENDED_BADLY:
                agent["failed"] += row["count"]
    in_order = [days[day] for day in sorted(days)]
    return History(in_order[-DAYS:], busiest(agents), counted_at)


def build_empty_days(start: date) -> dict[date, Day]:
    """DAYS days, also those without runs."""
    days: dict[date, Day] = {}
    for number in range(DAYS):
        day = start + timedelta(days=number)
        days[day] = Day(day)
    return days


def group_runs_by_day(runs: QuerySet[Run]) -> Any:
    day = TruncDate("created_at")
    groups = runs.order_by().values("status", "agent_id", day=day)
    return groups.annotate(count=Count("pk"), cost=Sum("cost"))


def busiest(agents: dict[int, dict[str, Any]], count: int = 6) -> list[dict[str, Any]]:
    """The most active ones, with their names: only these are looked up."""
    most_active = sorted(agents, key=lambda pk: -agents[pk]["count"])[:count]
    names = dict(Agent.objects.filter(pk__in=most_active).values_list("pk", "name"))
    rows: list[dict[str, Any]] = []
    for pk in most_active:
        # It may have been deleted since.
        if pk in names:
            rows.append({"name": names[pk], **agents[pk]})
    return rows


def latency(runs: QuerySet[Run]) -> dict[str, float | None]:
    """Seconds from start to end over the newest ended runs: {"p50", "p95", "queue_p50"}."""
    ended = runs.filter(finished_at__isnull=False).order_by("-pk")
    whole: list[float] = []
    queued: list[float] = []
    for created, started, finished in ended.values_list("created_at", "started_at", "finished_at")[:RECENT]:
        whole.append((finished - created).total_seconds())
        # A run that was cancelled in the queue never started.
        if started:
            queued.append((started - created).total_seconds())
    whole.sort()
    queued.sort()
    return {"p50": quantile(whole, 0.5), "p95": quantile(whole, 0.95), "queue_p50": quantile(queued, 0.5)}


def quantile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    rank = math.ceil(share * len(ordered))
    last = len(ordered) - 1
    return ordered[min(last, rank - 1)]


def failing_tools(runs: QuerySet[Run], everyone: bool, user: Any) -> list[dict[str, Any]]:
    """Tools with failures among the newest calls: name, calls, failed, share."""
    calls = ToolCallRecord.objects.all()
    if not everyone:
        calls = calls.filter(run__principal_id=user.pk)
    totals: Counter = Counter()
    failures: Counter = Counter()
    for name, outcome in calls.order_by("-pk").values_list("name", "outcome")[:CALLS]:
        totals[name] += 1
        if outcome in ("failed", "unknown"):
            failures[name] += 1
    worst: list[dict[str, Any]] = []
    for name, count in failures.items():
        worst.append({"name": name, "calls": totals[name], "failed": count, "share": count / totals[name]})
    worst.sort(key=lambda tool: (-tool["failed"], tool["name"]))
    return worst[:6]


def live_counts(runs: Any) -> dict[str, int]:
    """The numbers of queued, running and waiting runs."""
    rows = runs.live().order_by().values_list("status").annotate(count=Count("pk"))
    counts = dict(rows)
    return {status: counts.get(status, 0) for status in Run.LIVE}


def anomalies(days: list[Day]) -> list[str]:
    """Sentences about today if error rate or cost differ by more than three standard deviations
    from earlier days.
    """
    before = [day for day in days[:-1] if day.total]
    today = days[-1]
    if len(before) < 3 or not today.total:
        return []
    sentences = []
    rates = [day.error_rate for day in before]
    usual_rate = mean(rates)
    rate_limit = max(usual_rate + 3 * pstdev(rates), usual_rate + 0.1)
    # Of fewer runs, one failure is a large share.
    if today.ended >= 5 and today.error_rate > rate_limit:
        sentences.append(f"{today.error_rate:.0%} of today's runs failed; usually {usual_rate:.0%} do.")
    costs = [float(day.cost) for day in before]
    usual_cost = mean(costs)
    cost_limit = max(usual_cost + 3 * pstdev(costs), 2 * usual_cost, 0.01)
    if float(today.cost) > cost_limit:
        cost = money.format_dollars(today.cost)
        usual = money.format_dollars(usual_cost)
        sentences.append(f"Today's runs cost {cost}; usually {usual} a day.")
    return sentences
