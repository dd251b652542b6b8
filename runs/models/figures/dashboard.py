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

DAYS = 14
RECENT = 500  # the newest runs used for latency
CALLS = 1000  # the newest calls used to find failing tools
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
        return self.failed / self.ended if self.ended else 0.0


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
    rows = [*earlier, *group_runs_by_day(runs.filter(pk__gte=build_first_id(today)))]
    days = {day.date: day for day in (Day(start.date() + timedelta(days=number)) for number in range(DAYS))}
    agents: dict[int, dict[str, Any]] = defaultdict(lambda: {"count": 0, "failed": 0, "cost": Decimal(0)})
    for row in rows:
        day = days.setdefault(row["day"], Day(row["day"]))
        day.counts[row["status"]] += row["count"]
        day.cost += row["cost"] or 0
        if row["agent_id"]:
            agent = agents[row["agent_id"]]
            agent["count"] += row["count"]
            agent["cost"] += row["cost"] or 0
            agent["failed"] += row["count"] if row["status"] in ENDED_BADLY else 0
    return History([days[day] for day in sorted(days)][-DAYS:], busiest(agents), counted_at)


def group_runs_by_day(runs: QuerySet[Run]) -> Any:
    groups = runs.order_by().values("status", "agent_id", day=TruncDate("created_at"))
    return groups.annotate(count=Count("pk"), cost=Sum("cost"))


def busiest(agents: dict[int, dict[str, Any]], count: int = 6) -> list[dict[str, Any]]:
    """The most active ones, with their names: only these are looked up."""
    most = sorted(agents, key=lambda pk: -agents[pk]["count"])[:count]
    names = dict(Agent.objects.filter(pk__in=most).values_list("pk", "name"))
    return [{"name": names[pk], **agents[pk]} for pk in most if pk in names]


def latency(runs: QuerySet[Run]) -> dict[str, float | None]:
    """Seconds from start to end over the newest ended runs: {"p50", "p95", "queue_p50"}."""
    ended = runs.filter(finished_at__isnull=False).order_by("-pk")
    times = list(ended.values_list("created_at", "started_at", "finished_at")[:RECENT])
    whole = sorted((finished - created).total_seconds() for created, _, finished in times)
    queued = sorted((started - created).total_seconds() for created, started, _ in times if started)
    return {"p50": quantile(whole, 0.5), "p95": quantile(whole, 0.95), "queue_p50": quantile(queued, 0.5)}


def quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else None


def failing_tools(runs: QuerySet[Run], everyone: bool, user: Any) -> list[dict[str, Any]]:
    """Tools with failures among the newest calls: name, calls, failed, share."""
    calls = ToolCallRecord.objects.all() if everyone else ToolCallRecord.objects.filter(run__principal_id=user.pk)
    newest = calls.order_by("-pk").values_list("name", "outcome")[:CALLS]
    totals: Counter = Counter()
    failures: Counter = Counter()
    for name, outcome in newest:
        totals[name] += 1
        failures[name] += outcome in ("failed", "unknown")
    worst = [
        {"name": name, "calls": totals[name], "failed": count, "share": count / totals[name]}
        for name, count in failures.items()
        if count
    ]
    return sorted(worst, key=lambda tool: (-tool["failed"], tool["name"]))[:6]


def live_counts(runs: Any) -> dict[str, int]:
    """The numbers of queued, running and waiting runs."""
    counted = dict(runs.live().order_by().values_list("status").annotate(count=Count("pk")))
    return {status: counted.get(status, 0) for status in Run.LIVE}


def anomalies(days: list[Day]) -> list[str]:
    """Sentences about today if error rate or cost differ by more than three standard deviations
    from earlier days.
    """
    before, today = [day for day in days[:-1] if day.total], days[-1]
    if len(before) < 3 or not today.total:
        return []
    sentences = []
    rates = [day.error_rate for day in before]
    if today.ended >= 5 and today.error_rate > max(mean(rates) + 3 * pstdev(rates), mean(rates) + 0.1):
        sentences.append(f"{today.error_rate:.0%} of today's runs failed; usually {mean(rates):.0%} do.")
    costs = [float(day.cost) for day in before]
    if float(today.cost) > max(mean(costs) + 3 * pstdev(costs), 2 * mean(costs), 0.01):
        usual = money.format_dollars(mean(costs))
        sentences.append(f"Today's runs cost {money.format_dollars(today.cost)}; usually {usual} a day.")
    return sentences
