"""Track records of agents: success rate, latency, cost, errors, over time. From run rows: those of
the days before today are counted once in a while, the others each time.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Case, Count, F, IntegerField, QuerySet, Sum, Value, When

from plumbing import clock
from runs.models import Run

from .earlier import build_first_id, counted_before
from .times import DAY, HOUR, Seconds, truncate_time

WINDOWS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}
# Upper edges of the latency classes in seconds; percentiles are interpolated within a class.
EDGES = (0.1, 0.25, 0.5, 1, 2, 3, 5, 8, 13, 20, 30, 60, 120, 300, 900, 3600)
# SQLite computes durations to a ten-thousandth: with this, one of exactly an edge is in the same class everywhere.
ROUNDING_S = 0.0005
GOOD = (Run.Status.SUCCEEDED, Run.Status.PARTIAL)


@dataclass(slots=True)
class Figure:
    """One agent in one window. Cost in US dollars; percentiles in seconds, from latency classes."""

    runs: int = 0
    succeeded: int = 0
    cancelled: int = 0
    cost: Decimal = Decimal(0)
    tokens: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    classes: Counter[int] = field(default_factory=Counter)

    def add(self, row: dict[str, Any]) -> None:
        runs = row["runs"]
        self.runs += runs
        self.cost += row["spent"] or 0
        self.tokens += row["tokens_in"] or 0
        self.tokens += row["tokens_out"] or 0
        self.classes[row["latency"]] += runs
        if row["status"] in GOOD:
            self.succeeded += runs
        elif row["status"] == Run.Status.CANCELLED:
            self.cancelled += runs
        else:
            # A run that expired has no code of its own.
            code = row["error__code"] or row["status"]
            self.errors[code] += runs

    @property
    def success_rate(self) -> float | None:
        """The share of the runs that were not cancelled; None without such runs."""
        counted = self.runs - self.cancelled
        if not counted:
            return None
        return self.succeeded / counted

    @property
    def success_score(self) -> float:
        """The rate with one success and one failure added (Laplace), so that few runs say little."""
        counted = self.runs - self.cancelled
        return (self.succeeded + 1) / (counted + 2)

    @property
    def p50_s(self) -> float:
        return self.percentile(0.5)

    @property
    def p95_s(self) -> float:
        return self.percentile(0.95)

    def percentile(self, share: float) -> float:
        """Seconds that this share of the runs did not exceed. Within a class, the runs count as evenly spread."""
        rank = share * self.runs
        below = 0
        for index in sorted(self.classes):
            count = self.classes[index]
            if count and below + count >= rank:
                lower = EDGES[index - 1] if index else 0.0
                # The last class is open: its upper edge is a guess.
                upper = EDGES[index] if index < len(EDGES) else EDGES[-1] * 2
                part = (rank - below) / count
                return round(lower + (upper - lower) * part, 3)
            below += count
        return 0.0


def lately(agent_ids: Collection[int]) -> dict[int, Figure]:
    """The last week of these agents over all users, without tries of drafts; used to break ties in routing."""
    figures: dict[int, Figure] = {}
    runs = Run.objects.filter(agent_id__in=sorted(agent_ids))
    runs = runs.exclude(trigger__in=[Run.Trigger.DRAFT, Run.Trigger.MEMORY])
    for row in count_outcomes(runs, "week", "agent_id"):
        figures.setdefault(row["agent_id"], Figure()).add(row)
    return figures


Parts = list[tuple[datetime, Figure]]


def over_time(runs: QuerySet[Run], window: str, now: datetime | None = None) -> tuple[Figure, Parts]:
    """The whole window and its parts (hours of a day or an hour, otherwise days; UTC), oldest first."""
    length = HOUR if window in ("hour", "day") else DAY
    total = Figure()
    figures: dict[str, Figure] = {}
    runs = runs.annotate(part=truncate_time("created_at", length))
    for row in count_outcomes(runs, window, "part", now):
        total.add(row)
        figures.setdefault(row["part"], Figure()).add(row)
    parts: Parts = []
    for text in sorted(figures):
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        parts.append((at, figures[text]))
    return total, parts


def by_agent(runs: QuerySet[Run], window: str, now: datetime | None = None) -> dict[str, Figure]:
    """Each agent's figures in the window, by name."""
    figures: dict[str, Figure] = {}
    for row in count_outcomes(runs.filter(agent__isnull=False), window, "agent__name", now):
        figures.setdefault(row["agent__name"], Figure()).add(row)
    return figures


def count_outcomes(runs: QuerySet[Run], window: str, by: str, now: datetime | None = None) -> list[dict[str, Any]]:
    """Ended runs of the window by group, status, error and latency class. A week or a month is that
    many whole days (UTC), which this process keeps for some minutes, and today.
    """
    now = now or clock.near()
    if window not in ("week", "month"):
        first_id = build_first_id(now - WINDOWS[window])
        return list(group_outcomes(runs.filter(pk__gte=first_id), by))
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = today - WINDOWS[window]

    def count(rows: QuerySet[Run]) -> Iterable[dict[str, Any]]:
        return group_outcomes(rows, by)

    _, earlier = counted_before(runs, start, today, now, count, name=f"records by {by}")
    of_today = group_outcomes(runs.filter(pk__gte=build_first_id(today)), by)
    return [*earlier, *of_today]


def group_outcomes(runs: QuerySet[Run], by: str) -> Iterable[dict[str, Any]]:
    took = Seconds(F("finished_at"), F("created_at"))
    classes = [When(took__lt=edge + ROUNDING_S, then=Value(index)) for index, edge in enumerate(EDGES)]
    latency = Case(*classes, default=Value(len(EDGES)), output_field=IntegerField())
    ended = runs.order_by().filter(status__in=Run.DONE, finished_at__isnull=False)
    timed = ended.annotate(took=took).annotate(latency=latency)
    groups = timed.values(by, "status", "error__code", "latency")
    return groups.annotate(
        runs=Count("pk"), spent=Sum("cost"), tokens_in=Sum("input_tokens"), tokens_out=Sum("output_tokens")
    )


def serialize_track_record(figure: Figure) -> dict[str, Any]:
    success_rate = figure.success_rate
    if success_rate is not None:
        success_rate = round(success_rate, 4)
    errors = [{"code": code, "count": count} for code, count in figure.errors.most_common(10)]
    return {
        "runs": figure.runs,
        "succeeded": figure.succeeded,
        "cancelled": figure.cancelled,
        "success_rate": success_rate,
        "success_score": round(figure.success_score, 4),
        "p50_s": figure.p50_s,
        "p95_s": figure.p95_s,
        "cost": str(figure.cost.normalize()) if figure.cost else "0",
        "tokens": figure.tokens,
        "errors": errors,
    }
