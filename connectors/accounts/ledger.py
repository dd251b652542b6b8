"""Nothing missed, nothing twice: what was found, who claimed it, what was handed over.

A call claims items under its id and marks them delivered before it returns. Made again with the same id (its worker
died before the answer was written down), it gets the same items again; another call never gets them, unless the
claim is stale: its call began ten minutes ago and never came to an end.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import connection as database
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from agents.schema import sha256_of
from connectors.models import Connection, DeliveredItem

State = DeliveredItem.State
STALE = timedelta(minutes=10)
ATTEMPTS = 5  # then an item that cannot be read is given up, with its reason
BATCH = 500


def stream_of(filters: dict[str, Any]) -> str:
    """One name for one set of filters; each has its own cursor."""
    return sha256_of({key: value for key, value in filters.items() if value})[:16]


def note_found(connection: Connection, stream: str, ids: Iterable[str], place: str = "") -> int:
    """Add what the ledger does not know yet; doubles and known ones change nothing."""
    fresh = dict.fromkeys(ids)
    rows = [
        DeliveredItem(connection=connection, stream=stream, external_id=external_id, place=place)
        for external_id in fresh
    ]
    DeliveredItem.objects.bulk_create(rows, ignore_conflicts=True, batch_size=BATCH)
    return len(rows)


def save_cursor(connection: Connection, stream: str, cursor: dict[str, Any]) -> None:
    """Move one stream's cursor; called when all up to it is in the ledger."""
    with transaction.atomic():
        row = Connection.objects.select_for_update().only("cursor").get(pk=connection.pk)
        row.cursor[stream] = cursor
        Connection.objects.filter(pk=connection.pk).update(cursor=row.cursor)
    connection.cursor = row.cursor


def claimed(connection: Connection, call_id: str) -> list[DeliveredItem]:
    """What this very call was given already."""
    rows = connection.items.filter(claimed_by=call_id, state__in=[State.CLAIMED, State.DELIVERED])
    return list(rows.order_by("id"))


@transaction.atomic
def claim(
    connection: Connection, stream: str, call_id: str, limit: int, now: datetime | None = None
) -> list[DeliveredItem]:
    """Take the oldest waiting items for this call."""
    now = now or timezone.now()
    waiting = Q(state=State.FOUND) | Q(state=State.CLAIMED, claimed_at__lt=now - STALE)
    rows = connection.items.select_for_update(skip_locked=skips_locked()).filter(waiting, stream=stream)
    ids = list(rows.order_by("id").values_list("pk", flat=True)[:limit])
    DeliveredItem.objects.filter(pk__in=ids).update(
        state=State.CLAIMED, claimed_by=call_id, claimed_at=now, attempts=F("attempts") + 1
    )
    return list(DeliveredItem.objects.filter(pk__in=ids).order_by("id"))


def skips_locked() -> bool:
    return database.features.has_select_for_update_skip_locked


def settle(items: Iterable[DeliveredItem], outcome: Callable[[DeliveredItem], tuple[str, str]]) -> None:
    """Write down what became of each item: (state, error). One that failed is tried again, five times in all.

    One that goes back to be found was hindered by its account; that attempt does not count.
    """
    groups: dict[tuple[str, str, int], list[int]] = {}
    for item in items:
        state, error = outcome(item)
        uncounted = int(state == State.FOUND and item.attempts > 0)
        if state == State.FAILED and item.attempts < ATTEMPTS:
            state = State.FOUND
        groups.setdefault((state, error[:300], uncounted), []).append(item.pk)
    for (state, error, uncounted), ids in groups.items():
        rows = DeliveredItem.objects.filter(pk__in=ids)
        rows.update(state=state, error=error, attempts=F("attempts") - uncounted)


def has_more(connection: Connection, stream: str) -> bool:
    return connection.items.filter(stream=stream, state=State.FOUND).exists()
