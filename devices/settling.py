"""What devices say, written down in batches by one thread a server process: a consumer never waits for the database.

Results that arrive while one transaction commits share the next one. Should the process die first, nothing is lost:
the device has its results in its journal and reports them at its next hello.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import DatabaseError, close_old_connections, connections, transaction
from django.utils import timezone

from devices import presence, protocol
from devices.calls import State, tell_settled
from devices.models import DeviceCall

log = logging.getLogger(__name__)
MAX_BATCH = 256
ACK_S = 0.1  # an ack waits so long for its result, which makes it superfluous
SEEN_S = 2.0


@dataclass(frozen=True, slots=True)
class Said:
    """One frame of a device, and when it came."""

    device_id: UUID
    frame: Any
    at: datetime


class Settler:
    def __init__(self) -> None:
        self.said: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.started_in = 0
        self.acks: dict[tuple[UUID, str], Said] = {}
        self.seen: set[UUID] = set()
        self.ack_due = self.seen_due = 0.0
        self.on_settled: Callable[[UUID], Any] | None = None

    def put(self, said: Said) -> None:
        if self.started_in != os.getpid():
            self.start()
        self.said.put(said)

    def start(self) -> None:
        with self.lock:
            if self.started_in != os.getpid():
                self.started_in = os.getpid()
                threading.Thread(target=self.work_for_ever, name="device-results", daemon=True).start()

    def work_for_ever(self) -> None:
        while True:
            batch = self.take()
            try:
                self.write(batch)
            except DatabaseError as error:
                log.warning("Results of devices were not written, trying again: %s", error)
                for connection in connections.all(initialized_only=True):
                    connection.close()
                for said in batch:
                    self.said.put(said)
                time.sleep(0.5)
            except Exception:  # one broken result must not stop all others
                log.exception("A batch of %d results of devices was dropped", len(batch))

    def take(self) -> list[Said]:
        """Everything that was said, waiting for the first; empty when an ack or a sign of life is due."""
        batch: list[Said] = []
        try:
            batch.append(self.said.get(timeout=ACK_S if self.acks or self.seen else None))
            while len(batch) < MAX_BATCH:
                batch.append(self.said.get_nowait())
        except queue.Empty:
            pass
        return batch

    def write(self, batch: list[Said]) -> None:
        results: list[Said] = []
        for said in batch:
            if isinstance(said.frame, protocol.ToolResult):
                results.append(said)
                self.acks.pop((said.device_id, said.frame.id), None)
            elif isinstance(said.frame, protocol.ToolAck | protocol.ToolProgress):
                self.ack_due = self.ack_due or time.monotonic() + ACK_S
                self.acks[said.device_id, said.frame.id] = said
            self.seen_due = self.seen_due or time.monotonic() + SEEN_S
            self.seen.add(said.device_id)
        close_old_connections()
        if results:
            self.settle(results)
        if self.acks and time.monotonic() >= self.ack_due:
            acks, self.acks, self.ack_due = self.acks, {}, 0.0
            note_progress(list(acks.values()))
        if self.seen and time.monotonic() >= self.seen_due:
            seen, self.seen, self.seen_due = self.seen, set(), 0.0
            presence.seen(list(seen), timezone.now())

    def settle(self, results: list[Said]) -> None:
        settled = settle(results)
        tell_settled([row.pk for row in settled], [outcome_of(row) for row in settled])
        for run_id in {row.run_id for row in settled if row.is_awaited and row.run_id}:
            self.wake(run_id)

    def wake(self, run_id: UUID) -> None:
        try:
            if self.on_settled is not None:
                self.on_settled(run_id)
        except Exception:  # the run's own clock wakes it at the call's deadline
            log.exception("Run %s was not woken", run_id)


SETTLER = Settler()


@transaction.atomic
def settle(results: list[Said]) -> list[DeviceCall]:
    """Write each result once; a doubled one, or one for another device's call, changes nothing."""
    wanted = {said.frame.id for said in results if presence.is_id(said.frame.id)}
    rows = {str(row.pk): row for row in DeviceCall.objects.select_for_update().filter(pk__in=wanted)}
    changed = {}
    for said in results:  # in the order they came: the first one counts
        row = rows.get(said.frame.id)
        if row is not None and apply(row, said):
            changed[row.pk] = row
    settled = list(changed.values())
    fields = ["state", "result", "error", "late", "finished_at"]
    if len(settled) == 1:
        settled[0].save(update_fields=fields)
    elif settled:
        DeviceCall.objects.bulk_update(settled, fields)
    return settled


def apply(row: DeviceCall, said: Said) -> bool:
    """Put a result into its row. An answer that comes after the deadline is kept as late."""
    if row.device_id != said.device_id:
        log.warning("Device %s answered call %s, which is not its own", said.device_id, row.pk)
        return False
    if row.state in (State.DONE, State.FAILED, State.CANCELLED) and row.is_settled:
        return False
    frame: protocol.ToolResult = said.frame
    row.late = row.is_settled or said.at > row.deadline
    row.result, row.error = (frame.result, None) if frame.ok else (None, frame.error)
    code = (frame.error or {}).get("code")
    row.state = State.DONE if frame.ok else State.CANCELLED if code == protocol.CANCELLED else State.FAILED
    row.finished_at = said.at
    return True


def outcome_of(row: DeviceCall) -> dict[str, Any]:
    return {"state": row.state, "result": row.result, "error": row.error, "late": row.late}


@transaction.atomic
def note_progress(acks: list[Said]) -> None:
    """Calls that are at work, and what their tools say of it."""
    for said in acks:
        if not presence.is_id(said.frame.id):
            continue
        mine = DeviceCall.objects.open().filter(pk=said.frame.id, device_id=said.device_id)
        mine.exclude(state=State.ACKED).update(state=State.ACKED, acked_at=said.at)
        if isinstance(said.frame, protocol.ToolProgress):
            mine.update(progress={"message": said.frame.message[:500], "fraction": said.frame.fraction})
