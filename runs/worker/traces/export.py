"""Sends the traces and metrics of ended runs to an OpenTelemetry collector (OTLP over HTTP).

One worker does it for all. What was sent is remembered after the collector has accepted it: after a
crash, or while the collector is away, nothing is lost, and what is sent twice has the same ids.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils.dateparse import parse_datetime

from plumbing import clock
from runs.models import Duty, Run

from . import names
from .spans import Span, build_spans

log = logging.getLogger(__name__)
# The row of this duty remembers the last run that was sent.
DUTY = "traces"
# Root runs in one request.
BATCH = 50
# Requests of one pass.
MOST_BATCHES = 20
# Until a run counts as ended: another one may end before it and be committed later.
SETTLED = timedelta(seconds=5)
TIMEOUT_S = 10
BOUNDS_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
BOUNDS_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)


def tick_traces(now: datetime | None = None) -> int:
    """Send what has ended since the last time. Returns the number of root runs."""
    if not settings.OTLP_ENDPOINT:
        return 0
    now = now or clock.near()
    sent = 0
    for _ in range(MOST_BATCHES):
        batch = find_untraced_runs(now)
        if not batch:
            break
        spans = build_spans(batch, with_contents=settings.TRACE_CONTENTS)
        if not send_spans(spans):
            break
        remember_exported(batch[-1])
        sent += len(batch)
    return sent


def find_untraced_runs(now: datetime) -> list[Run]:
    """The next root runs to send, oldest first. The first time nothing is: history is not sent."""
    row, is_new = Duty.objects.get_or_create(name=DUTY, defaults={"state": {"at": now.isoformat(), "run": ""}})
    if is_new or not row.state:
        return []
    at = parse_datetime(row.state["at"])
    last = row.state["run"]
    is_later = Q(finished_at__gt=at)
    if last:
        # Of runs that ended at the same moment, the ids decide.
        is_later |= Q(finished_at=at, pk__gt=last)
    rows = Run.objects.filter(is_later, parent=None, finished_at__gte=at, finished_at__lte=now - SETTLED)
    return list(rows.order_by("finished_at", "pk")[:BATCH])


def remember_exported(run: Run) -> None:
    # Only ended runs are selected.
    assert run.finished_at is not None
    state = {"at": run.finished_at.isoformat(), "run": str(run.pk)}
    Duty.objects.filter(name=DUTY).update(state=state)


def send_spans(spans: Sequence[Span]) -> bool:
    """Whether the collector accepted them."""
    if not spans:
        return True
    return collector(settings.OTLP_ENDPOINT, settings.SERVICE_NAME).send(spans)


@lru_cache(maxsize=1)
def collector(endpoint: str, service: str) -> "Collector":
    return Collector(endpoint, service)


class Collector:
    """OpenTelemetry's packages are imported here: a worker that sends nothing does not load them."""

    def __init__(self, endpoint: str, service: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

        base = endpoint.rstrip("/")
        self.resource = Resource.create({"service.name": service})
        self.spans = OTLPSpanExporter(f"{base}/v1/traces", headers=settings.OTLP_HEADERS, timeout=TIMEOUT_S)
        metrics = OTLPMetricExporter(f"{base}/v1/metrics", headers=settings.OTLP_HEADERS, timeout=TIMEOUT_S)
        reader = PeriodicExportingMetricReader(metrics)
        self.meters = MeterProvider([reader], self.resource, shutdown_on_exit=False)
        meter = self.meters.get_meter("muster")
        self.durations = meter.create_histogram(names.DURATION, "s", explicit_bucket_boundaries_advisory=BOUNDS_S)
        self.tokens = meter.create_histogram(names.TOKENS, "{token}", explicit_bucket_boundaries_advisory=BOUNDS_TOKENS)

    def send(self, spans: Sequence[Span]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        converted = [self.converted(span) for span in spans]
        if self.spans.export(converted) is not SpanExportResult.SUCCESS:
            log.warning(
                "The collector at %s did not take %s spans; they are sent again.", settings.OTLP_ENDPOINT, len(spans)
            )
            return False
        if settings.OTLP_METRICS:
            for span in spans:
                self.measure(span)
        return True

    def converted(self, span: Span) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(id: int) -> Any:
            return SpanContext(span.trace, id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        parent = context(span.parent) if span.parent else None
        kind = SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL
        status = Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK)
        return ReadableSpan(
            span.name,
            context=context(span.id),
            parent=parent,
            resource=self.resource,
            attributes=span.attributes,
            kind=kind,
            status=status,
            start_time=span.start,
            end_time=span.end,
        )

    def measure(self, span: Span) -> None:
        """Durations of all operations, and the tokens of model calls."""
        # Of an attribute with many values, each would be a series of figures of its own.
        kept = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.ERROR)
        attributes = {name: span.attributes[name] for name in kept if name in span.attributes}
        if names.OPERATION in attributes:
            seconds = (span.end - span.start) / 1e9
            self.durations.record(seconds, attributes)
        if not span.is_client:
            return
        for name, kind in ((names.INPUT_TOKENS, "input"), (names.OUTPUT_TOKENS, "output")):
            count = span.attributes.get(name, 0)
            self.tokens.record(count, {**attributes, names.TOKEN_TYPE: kind})
