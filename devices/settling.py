"""Writes the messages of devices to the database in batches, with one thread per server process, so
that a consumer never waits.

Results that arrive while one transaction commits share the next one. Acks and signs of life wait on
the event loop: an ack whose result follows at once is never written. If the process dies first,
nothing is lost: the device has its results in its journal and reports them at its next hello.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import DatabaseError, close_old_connections, connections, transaction

from devices import presence, protocol, statements
from devices.calls import State
from devices.models import Device, DeviceCall
from devices.nudges import announce
from devices.statements import OpenCall
from devices.threads import Batches
from plumbing import clock

log = logging.getLogger(__name__)
# How long an ack waits for its result, which makes it unnecessary.
ACK_S = 0.1
SEEN_S = 2.0
ENDED = (State.DONE, State.FAILED, State.CANCELLED)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One frame of a device, and the time it arrived."""

    device_id: UUID
    frame: Any
    at: datetime


Work = Callable[[], None]
# The loop in which a flush is due, and when.
Timer = tuple[asyncio.AbstractEventLoop | None, float]
NO_TIMER: Timer = (None, 0.0)


class Settler:
    """`put` and `heard` run on the event loop; everything below `write_or_retry` on the thread."""

    def __init__(self) -> None:
        self.tasks: Batches[Arrival | Work] = Batches("device-results", self.write_or_retry, 256)
        self.acks: dict[tuple[UUID, str], Arrival] = {}
        self.seen: set[UUID] = set()
        self.acks_due = self.seen_due = NO_TIMER
        self.on_settled: Callable[[UUID], Any] | None = None

    def put(self, arrival: Arrival) -> None:
        """A result is written at once; an ack or a progress report a little later, unless its
        result comes first.
        """
        self.heard(arrival.device_id)
        key = arrival.device_id, arrival.frame.id
        if isinstance(arrival.frame, protocol.ToolResult):
            self.acks.pop(key, None)
            self.do(arrival)
            return
        self.acks[key] = arrival
        self.acks_due = schedule_flush(ACK_S, self.flush_acks, self.acks_due)

    def heard(self, device_id: UUID) -> None:
        self.seen.add(device_id)
        self.seen_due = schedule_flush(SEEN_S, self.flush_seen, self.seen_due)

    def flush_acks(self) -> None:
        acks, self.acks = self.acks, {}
        if acks:
            self.do(lambda: note_progress(list(acks.values())))

    def flush_seen(self) -> None:
        seen, self.seen = self.seen, set()
        if seen:
            self.do(lambda: note_seen(seen, clock.near()))

    def do(self, task: Arrival | Work) -> None:
        self.tasks.put(task)

    # -- on the thread ----------------------------------------------------------------------------------------------

    def write_or_retry(self, batch: list[Arrival | Work]) -> None:
        try:
            close_old_connections()
            self.write(batch)
        except DatabaseError as error:
            log.warning("Results of devices were not written, trying again: %s", error)
            for connection in connections.all(initialized_only=True):
                connection.close()
            for task in batch:
                self.tasks.put(task)
            time.sleep(0.5)
        except Exception:  # one invalid result must not block the others
            log.exception("A batch of %d results of devices was dropped", len(batch))

    def write(self, batch: list[Arrival | Work]) -> None:
        results = [task for task in batch if isinstance(task, Arrival)]
        if results:
            self.settle(results)
        for task in batch:
            if not isinstance(task, Arrival):
                task()

    def settle(self, results: list[Arrival]) -> None:
        settled = settle_arrivals(results)
        announce([(row.id, build_call_outcome(row)) for row in settled])
        # A run may have waited for several of them; it is woken once.
        run_ids = {row.run_id for row in settled if row.is_awaited and row.run_id}
        for run_id in run_ids:
            self.wake(run_id)

    def wake(self, run_id: UUID) -> None:
        try:
            if self.on_settled is not None:
                self.on_settled(run_id)
        except Exception:  # the run's own timer wakes it at the call's deadline
            log.exception("Run %s was not woken", run_id)


SETTLER = Settler()


def schedule_flush(seconds: float, flush: Work, timer: Timer) -> Timer:
    """Make sure that this is flushed later. A timer dies with its loop."""
    loop = asyncio.get_running_loop()
    now, (its_loop, due) = loop.time(), timer
    if its_loop is loop and now < due:
        return timer
    loop.call_later(seconds, flush)
    return loop, now + seconds


@transaction.atomic
def settle_arrivals(results: list[Arrival]) -> list[OpenCall]:
    """Write each result once; duplicates and results for another device's call are ignored."""
    ids = {arrival.frame.id: id for arrival in results if (id := presence.parse_device_call_id(arrival.frame.id))}
    rows = statements.lock_open_calls(list(ids.values()))
    changed = {}
    for arrival in results:
        # In the order they arrived: the first one counts.
        row = rows.get(ids.get(arrival.frame.id))
        if row is not None and apply_arrival(row, arrival):
            changed[row.id] = row
    settled = list(changed.values())
    if settled:
        statements.write_settled_calls(settled)
    return settled


def apply_arrival(row: OpenCall, arrival: Arrival) -> bool:
    """Store a result in its row. An answer after the deadline is marked late."""
    if row.device_id != arrival.device_id:
        log.warning("Device %s answered call %s, which belongs to another device", arrival.device_id, row.id)
        return False
    if row.state in ENDED and row.finished_at is not None:
        return False
    frame: protocol.ToolResult = arrival.frame
    row.late = row.finished_at is not None or arrival.at > row.deadline
    row.finished_at = arrival.at
    if frame.ok:
        row.result = frame.result
        row.error = None
        row.state = State.DONE.value
        return True
    row.result = None
    row.error = frame.error
    code = (frame.error or {}).get("code")
    row.state = State.FAILED.value
    if code == protocol.CANCELLED:
        row.state = State.CANCELLED.value
    return True


def build_call_outcome(row: OpenCall) -> dict[str, Any]:
    return {"state": row.state, "result": row.result, "error": row.error, "late": row.late}


def note_seen(device_ids: set[UUID], now: datetime) -> None:
    Device.objects.filter(pk__in=device_ids).update(last_seen=now)


@transaction.atomic
def note_progress(acks: list[Arrival]) -> None:
    """Running calls and the progress of their tools."""
    for arrival in acks:
        frame = arrival.frame
        id = presence.parse_device_call_id(frame.id)
        if not id:
            continue
        mine = DeviceCall.objects.open().filter(pk=id, device_id=arrival.device_id)
        mine.exclude(state=State.ACKED).update(state=State.ACKED, acked_at=arrival.at)
        if isinstance(frame, protocol.ToolProgress):
            mine.update(progress={"message": frame.message[:500], "fraction": frame.fraction})
