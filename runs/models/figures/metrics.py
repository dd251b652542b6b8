"""Metrics for Prometheus: figures of rows are counted on request, figures of this process as they
happen.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db.models import Count, Min, QuerySet
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from plumbing import clock
from runs.models import Approval, Run

from .earlier import build_first_id

CONTENT_TYPE = CONTENT_TYPE_LATEST
RECENT = timedelta(minutes=5)
# A caller may send any other word, and each would be a figure of its own.
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
REQUESTS = Counter("muster_http_requests", "Requests answered.", ["method", "route", "status"])
SECONDS = Histogram(
    "muster_http_request_seconds",
    "Time to the response, in seconds; for a stream, to its beginning.",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    known_method = method if method in METHODS else "other"
    REQUESTS.labels(known_method, route, str(status)).inc()
    SECONDS.labels(route).observe(seconds)


def exposition() -> bytes:
    """All figures in Prometheus' text format."""
    return generate_latest(REGISTRY)


class Rows(Collector):
    """Runs and approvals, read on request: every process returns the same figures."""

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = clock.near()
        yield by_status("muster_runs_live", "Runs that have not ended.", Run.objects.live())
        recent = Run.objects.filter(pk__gte=build_first_id(now - RECENT))
        yield by_status("muster_runs_recent", "Runs accepted within the last five minutes.", recent)
        yield GaugeMetricFamily(
            "muster_oldest_queued_seconds",
            "Age of the run that has waited longest for a worker, in seconds.",
            age_of_oldest_queued(now),
        )
        yield GaugeMetricFamily(
            "muster_approvals_open", "Approvals that are not decided yet.", Approval.objects.open().count()
        )


def by_status(name: str, text: str, runs: QuerySet[Run]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["status"])
    for row in runs.order_by().values("status").annotate(number=Count("pk")):
        family.add_metric([row["status"]], row["number"])
    return family


def age_of_oldest_queued(now: datetime) -> float:
    queued = Run.objects.live().filter(status=Run.Status.QUEUED)
    oldest = queued.aggregate(at=Min("created_at"))["at"]
    if oldest is None:
        return 0.0
    return (now - oldest).total_seconds()


REGISTRY.register(Rows())
