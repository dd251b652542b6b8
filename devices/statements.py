"""What every device call reads and writes, as prepared statements.

The rest goes through the models: building such a statement with the ORM took five to thirteen times as long as
executing it.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import models, transaction
from django.db.models import Exists
from django.db.models.functions import Cast

from devices.models import Device, DeviceCall, silence_allowed
from plumbing.statements import Select, insert_plain, update_each


@dataclass(frozen=True, slots=True)
class Place:
    """A paired device as far as a call must know it."""

    pk: UUID
    name: str
    tools: dict[str, str]
    socket: str
    last_seen: datetime | None
    connected_at: datetime | None

    def is_online(self, now: datetime) -> bool:
        if not self.socket or self.last_seen is None:
            return False
        return self.last_seen > now - silence_allowed()


@dataclass(frozen=True, slots=True)
class NewCall:
    """A row to be written: its columns. `state` is queued or sent."""

    id: UUID
    owner_id: int
    device_id: UUID | None
    run_id: UUID | None
    root_id: UUID | None
    tool: str
    offer: str
    arguments: dict[str, Any]
    run_context: dict[str, Any]
    state: str
    timeout_s: float
    deadline: datetime
    created_at: datetime
    sent_at: datetime | None
    waits: bool = False
    attempt: int = 1
    late: bool = False
    is_awaited: bool = False
    cancel_reason: str = ""


@dataclass(slots=True)
class OpenCall:
    """What a result changes in a row, and what decides whether it may."""

    id: UUID
    device_id: UUID | None
    run_id: UUID | None
    state: str
    deadline: datetime
    finished_at: datetime | None
    is_awaited: bool
    result: Any = None
    error: Any = None
    late: bool = False


PLACES = Select(
    lambda at: (
        Device.objects.filter(owner_id=at.owner, revoked_at=None)
        .annotate(tool_text=Cast("tools", models.TextField()), is_known=Exists(DeviceCall.objects.filter(pk=at.call)))
        .values_list("pk", "name", "tool_text", "socket", "last_seen", "connected_at", "is_known")
        .order_by()
    ),
    owner=models.IntegerField(),
    call=models.UUIDField(),
)
COLUMNS = ("pk", "device_id", "run_id", "state", "deadline", "finished_at", "is_awaited")
HELD = DeviceCall.objects.select_for_update().values_list(*COLUMNS)
OPEN = Select(lambda at: HELD.filter(pk=at.call).order_by(), call=models.UUIDField())
# As many prepared statements take as long as building one query for all.
FEW = 8


def places(owner_id: Any, call_id: UUID) -> tuple[list[Place], bool]:
    """A person's live devices, and whether this call has a row already (False too where there is no device)."""
    devices = []
    is_known = False
    for pk, name, tools, *rest, has_row in PLACES.all(owner=owner_id, call=call_id):
        devices.append(Place(pk, name, parse_device_tools(tools), *rest))
        is_known = is_known or bool(has_row)
    return devices, is_known


@lru_cache(maxsize=256)
def parse_device_tools(text: str) -> dict[str, str]:
    """Most devices have the same tools; nobody changes what this returns."""
    return json.loads(text)


def insert_device_call(call: NewCall) -> None:
    """Write a new row. Raises IntegrityError when it is there already."""
    with transaction.atomic():
        insert_plain(DeviceCall, [call])


def lock_open_calls(ids: Collection[UUID]) -> dict[UUID, OpenCall]:
    """Rows by id, held until the transaction ends; in one order, so that two threads never wait for each other."""
    if len(ids) > FEW:
        rows = list(HELD.filter(pk__in=ids).order_by("pk"))
    else:
        rows = []
        for id in sorted(ids):
            rows += OPEN.all(call=id)
    return {row[0]: OpenCall(*row) for row in rows}


def write_settled_calls(rows: Sequence[OpenCall]) -> None:
    update_each(rows, ("state", "result", "error", "late", "finished_at"), model=DeviceCall)
