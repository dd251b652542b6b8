"""Follow one run: what is stored after a cursor, then what happens, without gap or double."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from channels.layers import get_channel_layer
from django.db.models import IntegerField, UUIDField

from agents.prepared import Select
from agents.threads import in_thread

from . import events
from .models import RunEvent

HEARTBEAT_S = 15.0
BATCH = 500


@asynccontextmanager
async def listening(*groups: str) -> AsyncIterator[Any]:
    """An async function that waits for the next message of these groups."""
    layer = get_channel_layer()
    channel = await layer.new_channel()
    for group in groups:
        await layer.group_add(group, channel)

    async def next_message(timeout: float) -> dict[str, Any] | None:
        try:
            return await asyncio.wait_for(asyncio.shield(pending()), timeout)
        except TimeoutError:
            return None

    task: asyncio.Task | None = None

    def pending() -> asyncio.Task:
        """One receive stays open over time-outs: cancelling it would unsubscribe the channel."""
        nonlocal task
        if task is None or task.done():
            task = asyncio.ensure_future(layer.receive(channel))
        return task

    try:
        yield next_message
    finally:
        for group in groups:
            await layer.group_discard(group, channel)
        if task is not None:
            task.cancel()


async def follow(run_id: Any, *, after: int = 0, deltas: bool = True) -> AsyncIterator[dict[str, Any] | None]:
    """Events of a run from `after` on, until run.finished. None is a heartbeat: nothing happened for a while."""
    async for batch in in_batches(run_id, after=after, deltas=deltas):
        for event in batch:
            yield event
        if not batch:
            yield None


async def in_batches(run_id: Any, *, after: int = 0, deltas: bool = True) -> AsyncIterator[list[dict[str, Any]]]:
    """The same, by as many as are at hand; an empty batch is a heartbeat.

    Subscribes before it reads the rows, so nothing falls between; what comes twice is known by its number.
    """
    groups = [events.group_of(run_id)] + ([events.deltas_of(run_id)] if deltas else [])
    async with listening(*groups) as next_message:
        seen = after
        async for batch in stored(run_id, after):
            seen = batch[-1]["seq"]
            yield batch
            if is_last(batch):
                return
        shown = {"turn": 0, "length": 0}
        if deltas and (late := await in_thread(events.text_so_far, run_id)):
            shown = {"turn": late["turn"], "length": len(late["text"])}
            yield [delta(run_id, late["turn"], 0, late["text"])]
        while True:
            message = await next_message(HEARTBEAT_S)
            if message is None:
                async for batch in stored(run_id, seen):  # a broker that was away loses messages, rows do not
                    seen = batch[-1]["seq"]
                    yield batch
                    if is_last(batch):
                        return
                yield []
                continue
            event = message["event"]
            if event["seq"] is None:
                if piece := unseen_part(event, shown):
                    yield [piece]
                continue
            if event["seq"] <= seen:
                continue
            if event["seq"] > seen + 1:
                async for batch in stored(run_id, seen, below=event["seq"]):
                    yield batch
            seen = event["seq"]
            yield [event]
            if is_last([event]):
                return


def is_last(batch: list[dict[str, Any]]) -> bool:
    return batch[-1]["type"] == "run.finished"


def unseen_part(event: dict[str, Any], shown: dict[str, int]) -> dict[str, Any] | None:
    """What of this delta the reader has not had: a late joiner got the text so far first."""
    data = event["data"]
    if data["turn"] != shown["turn"]:
        shown.update(turn=data["turn"], length=0)
    end = data["offset"] + len(data["text"])
    if end <= shown["length"]:
        return None
    fresh = data["text"][max(0, shown["length"] - data["offset"]) :]
    piece = delta(event["run"], data["turn"], end - len(fresh), fresh)
    shown["length"] = end
    return piece


def delta(run_id: Any, turn: int, offset: int, text: str) -> dict[str, Any]:
    return {
        "run": str(run_id),
        "seq": None,
        "type": "message.delta",
        "data": {"turn": turn, "offset": offset, "text": text},
    }


async def stored(run_id: Any, after: int, *, below: int | None = None) -> AsyncIterator[list[dict[str, Any]]]:
    """Stored events, up to `BATCH` at a time, never none."""
    while True:
        batch = await in_thread(read_batch, run_id, after, below)
        if batch:
            yield batch
        if len(batch) < BATCH:
            return
        after = batch[-1]["seq"]


def read_batch(run_id: Any, after: int, below: int | None) -> list[dict[str, Any]]:
    rows = STORED.all(run=run_id, after=after, below=2**31 - 1 if below is None else below)
    run = str(run_id)
    return [
        {"run": run, "seq": seq, "type": type, "at": events.rfc3339(at), "data": data} for seq, type, at, data in rows
    ]


STORED = Select(
    lambda at: (
        RunEvent.objects.filter(run_id=at.run, seq__gt=at.after, seq__lt=at.below)
        .order_by("seq")
        .values_list("seq", "type", "at", "data")[:BATCH]
    ),
    run=UUIDField(),
    after=IntegerField(),
    below=IntegerField(),
)


async def as_sse(source: AsyncIterator[list[dict[str, Any]]]) -> AsyncIterator[str]:
    """Server-sent events of batches, each batch written at once."""
    yield "retry: 1000\n\n"
    async for batch in source:
        yield "".join(frame(event) for event in batch) or ": still here\n\n"


def frame(event: dict[str, Any]) -> str:
    """One server-sent event; `id:` is the event number, which deltas do not carry."""
    number = f"id: {event['seq']}\n" if event["seq"] is not None else ""
    shown = {key: value for key, value in event.items() if key != "run" and value is not None}
    return f"{number}event: {event['type']}\ndata: {orjson.dumps(shown, default=str).decode()}\n\n"
