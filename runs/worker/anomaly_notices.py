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
    rows = Webhook.objects.filter(enabled=True).values_list("owner_id", "events")
    return {owner for owner, events in rows if not events or ANOMALY in events}


def report_anomalies(owner: int, now: datetime) -> int:
    reported_keys = {(body["data"]["agent"], body["data"]["measure"]) for body in list_reported(owner, now)}
    today = anomalies.today(Run.objects.filter(principal_id=owner), now)
    fresh = [one for one in today if (one.agent, one.measure) not in reported_keys]
    for anomaly in fresh:
        outbox.queue_notice(owner, ANOMALY, anomaly.as_json())
    return len(fresh)


def list_reported(owner: int, now: datetime) -> QuerySet[Any]:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    rows = WebhookDelivery.objects.filter(webhook__owner_id=owner, type=ANOMALY, created_at__gte=midnight)
    return rows.values_list("body", flat=True)
