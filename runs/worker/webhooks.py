"""Outbound webhooks: deliver run events with back-off (rows: runs/events/outbox.py)."""

import json
import logging
import time
from concurrent import futures
from datetime import datetime, timedelta
from typing import Any

import httpx
from django.conf import settings
from django.db.models import DateTimeField, F

from agents.models import SiteHold
from plumbing import clock, threads
from plumbing.http import outbound
from plumbing.statements import Select
from runs.models import WebhookDelivery
from runs.rules import signing

log = logging.getLogger(__name__)
State = WebhookDelivery.State
WAITS_S = (5, 30, 120, 600, 3600, 4 * 3600, 12 * 3600)  # seconds after the 1st … 7th failure; then the delivery is dead
TIMEOUT_S = 10.0
AT_ONCE = 64  # deliveries under way in one process; threads are made when they are needed
SENDERS = futures.ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhook")
UNDER_WAY: set[futures.Future] = set()
ANSWER_READ = 4096


def send_due() -> int:
    """Begin the deliveries that are due and for which there is a thread."""
    UNDER_WAY.difference_update([one for one in UNDER_WAY if one.done()])
    claimed = claim_due(clock.now(), AT_ONCE - len(UNDER_WAY))
    UNDER_WAY.update(SENDERS.submit(threads.answer, deliver, pk) for pk in claimed)
    return len(claimed)


def claim_due(now: datetime, room: int = AT_ONCE) -> list[str]:
    """Take deliveries that are due; advancing its next attempt is the claim."""
    claimed = []
    for pk, attempts, planned in DUE.all(now=now)[: max(room, 0)]:
        ours = WebhookDelivery.objects.filter(pk=pk, state=State.PENDING, next_attempt_at=planned, attempts=attempts)
        if ours.update(next_attempt_at=now + timedelta(seconds=6 * TIMEOUT_S)):
            claimed.append(str(pk))
    return claimed


DUE = Select(
    lambda at: (
        WebhookDelivery.objects.filter(SiteHold.absent(), state=State.PENDING, next_attempt_at__lte=at.now)
        .order_by("next_attempt_at")
        .values_list("pk", "attempts", "next_attempt_at")[:AT_ONCE]
    ),
    now=DateTimeField(),
)


def deliver(delivery_id: str) -> None:
    """One attempt. 2xx means accepted; anything else is retried until the attempts are used up."""
    waiting = WebhookDelivery.objects.filter(SiteHold.absent(), pk=delivery_id, state=State.PENDING)
    delivery = waiting.select_related("webhook__owner").first()
    if delivery is None:
        return
    if not delivery.webhook.owner.is_active:
        give_up(delivery, None, "the account of its owner was deactivated")
        return
    if not delivery.webhook.enabled and delivery.webhook.run_id is None:  # one of a task is off once that has ended
        give_up(delivery, None, "the webhook is switched off")
        return
    status, error = post(delivery)
    if status is not None and 200 <= status < 300:
        fields = {"state": State.DELIVERED, "delivered_at": clock.near(), "last_status": status, "last_error": ""}
        attempts_of(delivery).update(**fields, attempts=F("attempts") + 1)
        return
    if delivery.attempts >= len(WAITS_S) or error.startswith("refused"):
        give_up(delivery, status, error)
        return
    wait = WAITS_S[delivery.attempts]
    attempts_of(delivery).update(
        attempts=F("attempts") + 1, next_attempt_at=clock.Now(wait), last_status=status, last_error=error[:300]
    )


def attempts_of(delivery: WebhookDelivery) -> Any:
    return WebhookDelivery.objects.filter(pk=delivery.pk, state=State.PENDING, attempts=delivery.attempts)


def give_up(delivery: WebhookDelivery, status: int | None, error: str) -> None:
    attempts_of(delivery).update(
        state=State.DEAD, attempts=F("attempts") + 1, last_status=status, last_error=error[:300]
    )


def post(delivery: WebhookDelivery) -> tuple[int | None, str]:
    """(status, why it was not accepted). Private addresses are refused, redirects are not followed."""
    body = json.dumps(delivery.body, ensure_ascii=False, default=str).encode()
    headers = signing.sign(delivery.webhook.secret, f"msg_{delivery.pk.hex}", int(time.time()), body)
    kind = "application/json" if delivery.webhook.run_id is None else "application/a2a+json"
    headers |= {"Content-Type": kind, "User-Agent": "Muster-Webhook/1", **delivery.webhook.headers()}
    try:
        with (
            outbound.until(TIMEOUT_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client,
            client.stream("POST", delivery.webhook.url, content=body, headers=headers) as answer,
        ):
            return answer.status_code, f"answered {answer.status_code}"
    except outbound.AddressRefused as error:
        return None, f"refused: {error}"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        log.info("Delivery %s: %r", delivery.pk, error)
        return None, "the address cannot be reached" if isinstance(error, httpx.TransportError) else "it cannot be sent"


def send_again(delivery: WebhookDelivery) -> WebhookDelivery:
    """Take a dead delivery off the list and try it again."""
    delivery.state, delivery.attempts, delivery.next_attempt_at = State.PENDING, 0, clock.near()
    delivery.save(update_fields=["state", "attempts", "next_attempt_at"])
    return delivery
