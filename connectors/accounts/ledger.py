"""The ledger of delivered items: what was found, which call claimed it, what was delivered.

A call claims items under its id and marks them delivered before it returns. A repeated call with
the same id (after its worker died) gets the same items; another call does not, unless the claim is
stale: ten minutes old and never finished.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import connection as database
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from agents.schema import hash_json
from connectors.models import Connection, DeliveredItem

State = DeliveredItem.State
STALE = timedelta(minutes=10)
# Attempts before an unreadable item is given up, with its reason.
ATTEMPTS = 5
BATCH = 500
# Characters: longer ids are passed over, as if the service had not sent them.
LONGEST_ID = 512


def build_stream_key(filters: dict[str, Any]) -> str:
    """One key per set of filters; each has its own cursor."""
    used = {name: value for name, value in filters.items() if value}
    return hash_json(used)[:16]


def note_found(connection: Connection, stream: str, ids: Iterable[str], place: str = "") -> int:
    """Add unknown items; duplicates and known ones change nothing."""
    rows = []
    for external_id in dict.fromkeys(ids):
        if len(external_id) > LONGEST_ID or "\0" in external_id:
            continue
        row = DeliveredItem(connection=connection, stream=stream, external_id=external_id, place=place)
        rows.append(row)
    DeliveredItem.objects.bulk_create(rows, ignore_conflicts=True, batch_size=BATCH)
    return len(rows)


def save_cursor(connection: Connection, stream: str, cursor: dict[str, Any]) -> None:
    """Move the cursor of one stream; called when everything before it is in the ledger."""
    with transaction.atomic():
        row = Connection.objects.select_for_update().only("cursor").get(pk=connection.pk)
        row.cursor[stream] = cursor
        Connection.objects.filter(pk=connection.pk).update(cursor=row.cursor)
    connection.cursor = row.cursor


def list_claimed_items(connection: Connection, call_id: str) -> list[DeliveredItem]:
    """The items that this call was given before."""
    rows = connection.items.filter(claimed_by=call_id, state__in=[State.CLAIMED, State.DELIVERED])
    return list(rows.order_by("id"))


@transaction.atomic
def claim_oldest_items(
    connection: Connection, stream: str, call_id: str, limit: int, now: datetime | None = None
) -> list[DeliveredItem]:
    """Claim the oldest waiting items for this call; those that failed before come last, so that they stop no other."""
    now = now or timezone.now()
    is_stale = Q(state=State.CLAIMED, claimed_at__lt=now - STALE)
    is_waiting = Q(state=State.FOUND) | is_stale
    # Two calls at once share the items between them: neither waits for what the other one locks.
    unlocked = connection.items.select_for_update(skip_locked=skips_locked())
    waiting = unlocked.filter(is_waiting, stream=stream).order_by("attempts", "id")
    ids = list(waiting.values_list("pk", flat=True)[:limit])
    claimed = DeliveredItem.objects.filter(pk__in=ids)
    claimed.update(state=State.CLAIMED, claimed_by=call_id, claimed_at=now, attempts=F("attempts") + 1)
    return list(claimed.order_by("id"))


def skips_locked() -> bool:
    return database.features.has_select_for_update_skip_locked


def record_item_outcomes(items: Iterable[DeliveredItem], outcome: Callable[[DeliveredItem], tuple[str, str]]) -> None:
    """Record the result of each item: (state, error). A failed one is retried, five times in all.

    An item that goes back to `found` was stopped by an error of its account; that attempt does not
    count.
    """
    groups: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for item in items:
        state, error = outcome(item)
        uncounted = int(state == State.FOUND and item.attempts > 0)
        if state == State.FAILED and item.attempts < ATTEMPTS:
            state = State.FOUND
        group = (state, error[:300], uncounted)
        groups[group].append(item.pk)
    # One statement for all items with the same outcome: most are delivered.
    for (state, error, uncounted), ids in groups.items():
        rows = DeliveredItem.objects.filter(pk__in=ids)
        rows.update(state=state, error=error, attempts=F("attempts") - uncounted)


def has_more(connection: Connection, stream: str) -> bool:
    waiting = connection.items.filter(stream=stream, state=State.FOUND)
    return waiting.exists()
