"""Counts of the days before today. They hardly change, so each process keeps them for a while."""

from collections.abc import Callable, Iterable
from datetime import datetime
from threading import Lock
from typing import Any
from uuid import UUID

from cachetools import TTLCache
from django.db.models import QuerySet

from runs.models import Run

Rows = list[dict[str, Any]]
Count = Callable[[QuerySet[Run]], Iterable[dict[str, Any]]]
# For five minutes: what is shown is that old at most.
_kept: TTLCache[Any, tuple[datetime, Rows]] = TTLCache(256, 300.0)
_lock = Lock()


def build_first_id(moment: datetime) -> UUID:
    """The smallest UUIDv7 of that millisecond: ids are ordered by time, so the key serves as an
    index on time.
    """
    milliseconds = int(moment.timestamp() * 1000)
    # They are the first 48 of 128 bits.
    return UUID(int=milliseconds << 80)


def counted_before(
    runs: QuerySet[Run], start: datetime, today: datetime, now: datetime, count: Count, *, name: str
) -> tuple[datetime, Rows]:
    """`count` of the runs from `start` to `today`, with the time of counting; `name` says what is
    counted.

    The key is the whole query with its values, so that people never share counts, and the newest of
    those runs: if it is another one, they are counted again.
    """
    rows = runs.filter(pk__gte=build_first_id(start), pk__lt=build_first_id(today))
    newest = rows.order_by("-pk").values_list("pk", flat=True).first()
    if newest is None:
        return now, []
    key = (name, newest, str(rows.query))
    with _lock:
        kept = _kept.get(key)
    if kept is None:
        kept = now, list(count(rows))
        with _lock:
            _kept[key] = kept
    return kept
