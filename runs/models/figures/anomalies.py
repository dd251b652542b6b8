"""Agents that behave unusually today: more failures, dearer or slower runs than on the days before.

Each measure is an average over runs, so that a day that is not over can be compared. It is unusual
if it is more than three standard deviations above the average of the earlier days, and by more than
chance would explain (LEAST).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import mean, pstdev
from typing import Any

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import TruncDate

from plumbing import clock
from runs.models import Run

from . import money
from .earlier import build_first_id

# Today and the days before.
DAYS = 14
# Ended runs of a day that counts.
FEWEST_RUNS = 5
# Earlier days that count.
FEWEST_DAYS = 3
DEVIATIONS = 3
FAILED = (Run.Status.FAILED, Run.Status.EXPIRED)
MEASURES = ("failures", "cost", "latency")
# Smallest distance from the average: (absolute, as a factor).
LEAST = {
    "failures": (0.1, 1.0),
    "cost": (0.001, 2.0),
    "latency": (1.0, 2.0),
}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`value`, `usual` and `limit`: a share of the runs, US dollars a run, or seconds a run."""

    agent: str
    measure: str
    value: float
    usual: float
    limit: float
    runs: int

    @property
    def message(self) -> str:
        if self.measure == "failures":
            return f"{self.value:.0%} of today's runs of “{self.agent}” failed; usually {self.usual:.0%} do."
        if self.measure == "cost":
            value = money.format_dollars(self.value)
            usual = money.format_dollars(self.usual)
            return f"A run of “{self.agent}” costs {value} today; usually {usual}."
        return f"A run of “{self.agent}” takes {self.value:.1f} s today; usually {self.usual:.1f} s."

    def as_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "measure": self.measure,
            "value": round(self.value, 6),
            "usual": round(self.usual, 6),
            "limit": round(self.limit, 6),
            "runs": self.runs,
            "message": self.message,
        }


def today(runs: QuerySet[Run], now: datetime | None = None) -> list[Anomaly]:
    """The anomalies of these runs since midnight UTC. One query."""
    now = (now or clock.near()).astimezone(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    start = midnight - timedelta(days=DAYS - 1)
    days_by_agent: dict[Any, dict[Any, dict[str, Any]]] = defaultdict(dict)
    for row in by_day(runs.filter(pk__gte=build_first_id(start))):
        days_by_agent[row["agent_id"]][row["day"]] = row
    anomalies: list[Anomaly] = []
    for days in days_by_agent.values():
        anomalies.extend(unusual(days, midnight.date()))
    return sorted(anomalies, key=lambda anomaly: (anomaly.agent, anomaly.measure))


def by_day(runs: QuerySet[Run]) -> Any:
    """One row for each agent and day with enough runs: how many ended and failed, and averages."""
    ended = runs.order_by().filter(status__in=Run.DONE, agent__isnull=False).exclude(status=Run.Status.CANCELLED)
    ended = ended.exclude(trigger__in=[Run.Trigger.DRAFT, Run.Trigger.MEMORY])
    groups = ended.values("agent_id", "agent__name", day=TruncDate("created_at", tzinfo=UTC))
    took = ExpressionWrapper(F("finished_at") - F("created_at"), output_field=DurationField())
    has_failed = Q(status__in=FAILED)
    figures = groups.annotate(
        runs=Count("pk"), failed=Count("pk", filter=has_failed), cost=Avg("cost"), latency=Avg(took)
    )
    return figures.filter(runs__gte=FEWEST_RUNS)


def unusual(days: dict[Any, dict[str, Any]], day: Any) -> Iterator[Anomaly]:
    """What is unusual about one agent on that day."""
    now = days.get(day)
    earlier = [row for at, row in days.items() if at < day]
    if now is None or len(earlier) < FEWEST_DAYS:
        return
    for measure in MEASURES:
        value = figure(now, measure)
        before = [figure(row, measure) for row in earlier]
        limit = compute_limit(measure, before)
        if value > limit:
            yield Anomaly(now["agent__name"], measure, value, mean(before), limit, now["runs"])


def compute_limit(measure: str, before: Sequence[float]) -> float:
    """The value above which a measure is unusual."""
    usual = mean(before)
    least, factor = LEAST[measure]
    beyond_chance = usual + DEVIATIONS * pstdev(before)
    # On days that are much alike, three deviations are nearly nothing.
    return max(beyond_chance, usual + least, usual * factor)


def figure(row: dict[str, Any], measure: str) -> float:
    if measure == "failures":
        return row["failed"] / row["runs"]
    if measure == "latency":
        return row["latency"].total_seconds()
    return float(row["cost"])
