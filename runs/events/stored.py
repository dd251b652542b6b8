"""Stored events of a run, read in slices. Data stays the JSON text of the row, and times stay text."""

from collections.abc import AsyncIterator
from typing import Any

from django.db.models import IntegerField, TextField, UUIDField
from django.db.models.functions import Cast

from plumbing.statements import Select
from plumbing.threads import in_thread
from runs.models import RunEvent

from .frames import Frame

SLICE = 1000


async def iterate_stored_events(run_id: Any, after: int) -> AsyncIterator[list[Frame]]:
    """Events after a number, up to `SLICE` at a time; never an empty slice."""
    while True:
        batch = await in_thread(read_event_frames, run_id, after)
        if batch:
            yield batch
        if len(batch) < SLICE:
            return
        after = batch[-1].seq or after


def read_event_frames(run_id: Any, after: int) -> list[Frame]:
    run = str(run_id)
    rows = STORED.all(run=run_id, after=after)
    return [Frame(run, type, data, seq=seq, at=format_stored_moment(at)) for seq, type, at, data in rows]


def format_stored_moment(at: str) -> str:
    """A time as databases write it, in UTC: “2026-06-01 08:00:00.123456”, with or without fraction
    and “+00”.
    """
    day = at[:10]
    seconds = at[11:19]
    fraction = at[20:].partition("+")[0]
    return f"{day}T{seconds}.{fraction[:3]:0<3}Z"


STORED = Select(
    lambda at: (
        RunEvent.objects.filter(run_id=at.run, seq__gt=at.after)
        .order_by("seq")
        .annotate(moment=Cast("at", TextField()), text=Cast("data", TextField()))
        .values_list("seq", "type", "moment", "text")[:SLICE]
    ),
    run=UUIDField(),
    after=IntegerField(),
)
