"""Tells the webhooks of people whose agents behave unusually, once a day for each agent and measure."""

from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet

from plumbing import clock
from runs.events import outbox
from runs.models import Run, Webhook, WebhookDelivery
from runs.models.figures import anomalies

ANOMALY = "agent.anomaly"


def tick_anomalies(now: datetime | None = None) -> int:
    """The number of anomalies that were reported."""
    now = (now or clock.near()).astimezone(UTC)
    return sum(report_anomalies(owner, now) for owner in listeners())


def listeners() -> set[int]:
    """The people with a webhook that wants to know. JSON lists are compared here: databases differ."""
    owners: set[int] = set()
    for owner, events in Webhook.objects.filter(enabled=True).values_list("owner_id", "events"):
        if not events or ANOMALY in events:
            owners.add(owner)
    return owners


def report_anomalies(owner: int, now: datetime) -> int:
    reported: set[tuple[str, str]] = set()
    for body in list_reported(owner, now):
        data = body["data"]
        reported.add((data["agent"], data["measure"]))
    count = 0
    for anomaly in anomalies.today(Run.objects.filter(principal_id=owner), now):
        if (anomaly.agent, anomaly.measure) not in reported:
            outbox.queue_notice(owner, ANOMALY, anomaly.as_json())
            count += 1
    return count


def list_reported(owner: int, now: datetime) -> QuerySet[Any]:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    rows = WebhookDelivery.objects.filter(webhook__owner_id=owner, type=ANOMALY, created_at__gte=midnight)
    return rows.values_list("body", flat=True)
