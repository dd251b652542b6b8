"""Outbound webhooks: deliver run events with back-off (rows: runs/events/outbox.py)."""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.db.models import Exists, F, OuterRef

from agents.models import SiteHold
from plumbing import clock
from plumbing.fair import FairQueue, Shares, of_others
from plumbing.http import outbound
from runs.models import WebhookDelivery
from runs.rules import signing

log = logging.getLogger(__name__)
State = WebhookDelivery.State
# Seconds after the 1st … 7th failure; then the delivery is dead.
WAITS_S = (5, 30, 120, 600, 3600, 4 * 3600, 12 * 3600)
TIMEOUT_S = 10.0
# Deliveries under way in one process; threads are made when they are needed.
AT_ONCE = 64
# The same of one person.
EACH_OWNER = 8
# By the Line of each delivery.
QUEUE = FairQueue("webhook", AT_ONCE, EACH_OWNER)
# The same of one person to one host.
EACH_RECEIVER = 4
# Queries of one tick: each next one passes over those who have their share.
LOOKS = 8
# Deliveries of one run in one thread.
IN_A_ROW = 20
LEASE = timedelta(seconds=6 * TIMEOUT_S)
# Times in a row that a receiver gave no answer, before it is left alone.
FAILURES = 4
# Doubles with each further failure, up to 16 minutes.
FIRST_PAUSE = timedelta(seconds=30)
MOST_DOUBLINGS = 5
LONGEST_WAIT = timedelta(days=1)
MOST_BREAKERS = 10_000
ANSWER_READ = 4096


def send_due() -> int:
    """Begin the deliveries that are due and for which there is a thread."""
    QUEUE.forget_ended()
    load = Load(QUEUE.find_keys())
    claimed = claim_due_deliveries(clock.now(), QUEUE.count_room(), load)
    for pk in claimed:
        line = load.lines[pk]
        QUEUE.start(line.owner, line, deliver_in_order, pk)
    return len(claimed)


@dataclass(frozen=True, slots=True)
class Line:
    """What waits for what: deliveries of one run to one webhook go one after the other."""

    owner: int
    receiver: str
    webhook: int
    run: str

    @property
    def order(self) -> tuple[int, str]:
        return self.webhook, self.run

    @property
    def way(self) -> tuple[int, str]:
        """Not the receiver alone: one person's address may hang where another's, at the same host, answers."""
        return self.owner, self.receiver


class Load:
    """The deliveries under way, counted by whose they are and where they go."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.lines: dict[str, Line] = {}
        self.owners = Shares(EACH_OWNER)
        self.ways: Counter[tuple[int, str]] = Counter()
        self.orders: set[tuple[int, str]] = set()
        for line in lines:
            self.count(line)

    def count(self, line: Line) -> None:
        self.owners.add(line.owner)
        self.ways[line.way] += 1
        self.orders.add(line.order)


def claim_due_deliveries(now: datetime, room: int = AT_ONCE, load: Load | None = None) -> list[str]:
    """Take deliveries that are due, the oldest first; advancing its next attempt is the claim. An owner and a receiver
    get no more than their share: whose receivers hang waits for those, and nobody else does.
    """
    load = load or Load()
    claimed: list[str] = []
    # Webhooks that have nothing to send now.
    passed: set[int] = set()
    for _ in range(LOOKS):
        if len(claimed) >= room:
            break
        rows = list(due_rows(now, load.owners.find_full(), passed))
        for pk, attempts, planned, webhook, owner, url, run in rows:
            line = Line(owner, name_receiver(url), webhook, str(run or ""))
            if len(claimed) >= room or not load.owners.has_room(owner):
                continue
            # A receiver that did not answer several times is left alone with all that it would get.
            until = BREAKERS.open_until(line.way, now)
            if until is not None:
                postpone(webhook, now, until)
                passed.add(webhook)
                continue
            if load.ways[line.way] >= BREAKERS.room(line.way):
                passed.add(webhook)
                continue
            # An earlier delivery of the run is under way: this one would overtake it.
            if line.order in load.orders:
                continue
            ours = WebhookDelivery.objects.filter(
                pk=pk, state=State.PENDING, next_attempt_at=planned, attempts=attempts
            )
            if ours.update(next_attempt_at=now + LEASE):
                load.count(line)
                load.lines[str(pk)] = line
                claimed.append(str(pk))
        # There are no more that could be sent.
        if len(rows) < AT_ONCE:
            break
    return claimed


def due_rows(now: datetime, owners: list[int], webhooks: set[int]) -> Any:
    """What may be sent now, without what waits behind an earlier delivery about the same run to the same webhook."""
    earlier = WebhookDelivery.objects.filter(
        webhook=OuterRef("webhook"), state=State.PENDING, run=OuterRef("run"), pk__lt=OuterRef("pk")
    ).order_by()
    due = WebhookDelivery.objects.filter(SiteHold.absent(), state=State.PENDING, next_attempt_at__lte=now)
    due = of_others(due, "webhook__owner", owners)
    due = due.exclude(webhook__in=webhooks).exclude(Exists(earlier))
    columns = ("pk", "attempts", "next_attempt_at", "webhook", "webhook__owner", "webhook__url", "run")
    return due.order_by("next_attempt_at", "pk").values_list(*columns)[:AT_ONCE]


def postpone(webhook: int, now: datetime, until: datetime) -> None:
    """What waits for a receiver that does not answer costs no thread and no attempt; after a day it is given up."""
    due = WebhookDelivery.objects.filter(webhook=webhook, state=State.PENDING, next_attempt_at__lte=now)
    old = due.filter(created_at__lt=now - LONGEST_WAIT)
    old.update(state=State.DEAD, last_error="the receiver has not answered for a day")
    due.update(next_attempt_at=until)


def name_receiver(url: str) -> str:
    return urlsplit(url).netloc.lower()


class Breakers:
    """Receivers that did not answer several times in a row are left alone for a while, then tried with one delivery.
    Kept in each process: the worst that another process does is to find it out for itself.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failures: dict[tuple[int, str], tuple[int, datetime]] = {}

    def record(self, way: tuple[int, str], has_answered: bool, now: datetime) -> None:
        with self.lock:
            earlier, _ = self.failures.pop(way, (0, now))
            if has_answered:
                return
            count = earlier + 1
            pause = timedelta()
            if count >= FAILURES:
                doublings = min(count - FAILURES, MOST_DOUBLINGS)
                pause = FIRST_PAUSE * 2**doublings
            self.failures[way] = (count, now + pause)
            while len(self.failures) > MOST_BREAKERS:
                oldest = next(iter(self.failures))
                self.failures.pop(oldest)

    def open_until(self, way: tuple[int, str], now: datetime) -> datetime | None:
        """When this receiver may be tried again; None if it may be now."""
        count, until = self.failures.get(way, (0, now))
        if count < FAILURES or until <= now:
            return None
        return until

    def room(self, way: tuple[int, str]) -> int:
        count, _ = self.failures.get(way, (0, None))
        return 1 if count >= FAILURES else EACH_RECEIVER


BREAKERS = Breakers()


def deliver_in_order(delivery_id: str) -> None:
    """This one, and what follows it in its run: the next does not wait for the next tick."""
    following: str | None = delivery_id
    for _ in range(IN_A_ROW):
        if following is None:
            return
        deliver(following)
        following = claim_following(following)


def claim_following(delivery_id: str) -> str | None:
    """The next delivery of the same run to the same webhook, if the one before was accepted."""
    now = clock.now()
    done = WebhookDelivery.objects.filter(pk=delivery_id, state=State.DELIVERED).first()
    if done is None:
        return None
    rows = WebhookDelivery.objects.filter(SiteHold.absent(), webhook=done.webhook_id, state=State.PENDING)
    if done.run is not None:
        rows = rows.filter(run=done.run)
    row = rows.order_by("pk").first()
    if row is None or row.next_attempt_at > now:
        return None
    ours = rows.filter(pk=row.pk, attempts=row.attempts, next_attempt_at=row.next_attempt_at)
    if not ours.update(next_attempt_at=now + LEASE):
        # Another process took it.
        return None
    return str(row.pk)


def deliver(delivery_id: str) -> None:
    """One attempt. 2xx means accepted; anything else is retried until the attempts are used up."""
    waiting = WebhookDelivery.objects.filter(SiteHold.absent(), pk=delivery_id, state=State.PENDING)
    delivery = waiting.select_related("webhook__owner").first()
    if delivery is None:
        return
    webhook = delivery.webhook
    if not webhook.owner.is_active:
        give_up(delivery, None, "the account of its owner was deactivated")
        return
    # The webhook of one task is switched off once that has ended: its last deliveries are still sent.
    if not webhook.enabled and webhook.run_id is None:
        give_up(delivery, None, "the webhook is switched off")
        return
    status, error = post_delivery(delivery)
    is_refused = error.startswith("refused")
    if not is_refused:
        way = (webhook.owner_id, name_receiver(webhook.url))
        BREAKERS.record(way, status is not None, clock.near())
    if status is not None and 200 <= status < 300:
        fields = {"state": State.DELIVERED, "delivered_at": clock.near(), "last_status": status, "last_error": ""}
        query_current_attempt(delivery).update(**fields, attempts=F("attempts") + 1)
        return
    if is_refused or delivery.attempts >= len(WAITS_S):
        give_up(delivery, status, error)
        return
    next_attempt_at = clock.Now(WAITS_S[delivery.attempts])
    query_current_attempt(delivery).update(
        attempts=F("attempts") + 1, next_attempt_at=next_attempt_at, last_status=status, last_error=error[:300]
    )


def query_current_attempt(delivery: WebhookDelivery) -> Any:
    return WebhookDelivery.objects.filter(pk=delivery.pk, state=State.PENDING, attempts=delivery.attempts)


def give_up(delivery: WebhookDelivery, status: int | None, error: str) -> None:
    query_current_attempt(delivery).update(
        state=State.DEAD, attempts=F("attempts") + 1, last_status=status, last_error=error[:300]
    )


def post_delivery(delivery: WebhookDelivery) -> tuple[int | None, str]:
    """(status, why it was not accepted). Private addresses are refused, redirects are not followed."""
    webhook = delivery.webhook
    body = json.dumps(delivery.body, ensure_ascii=False, default=str).encode()
    headers = signing.sign(webhook.secret, f"msg_{delivery.pk.hex}", int(time.time()), body)
    headers["Content-Type"] = "application/json" if webhook.run_id is None else "application/a2a+json"
    headers["User-Agent"] = "Muster-Webhook/1"
    headers.update(webhook.headers())
    try:
        with (
            outbound.until(TIMEOUT_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client,
            client.stream("POST", webhook.url, content=body, headers=headers) as answer,
        ):
            return answer.status_code, f"answered {answer.status_code}"
    except outbound.AddressRefused as error:
        return None, f"refused: {error}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        log.info("Delivery %s: %r", delivery.pk, error)
        if isinstance(error, httpx2.TransportError):
            return None, "the address cannot be reached"
        return None, "it cannot be sent"


def send_again(delivery: WebhookDelivery) -> WebhookDelivery:
    """Take a dead delivery off the list and try it again."""
    delivery.state = State.PENDING
    delivery.attempts = 0
    delivery.next_attempt_at = clock.near()
    delivery.save(update_fields=["state", "attempts", "next_attempt_at"])
    return delivery
