"""The statements that every device call or heartbeat makes, written by hand (docs/adr/0023).

Building such a statement with the ORM took five to thirteen times as long as executing it; agents.rows takes a seventh
more for the insert. They run on both databases; whatever comes more seldom goes through the models.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from devices.models import Device, DeviceCall, silence_allowed
from plumbing.prepared import cursor_of_kept, database

CALLS, DEVICES = DeviceCall._meta.db_table, Device._meta.db_table
PLACES = f"""SELECT id, name, tools, socket, last_seen, connected_at,
    EXISTS (SELECT 1 FROM {CALLS} WHERE id = %s) FROM {DEVICES} WHERE owner_id = %s AND revoked_at IS NULL"""  # noqa: S608
COLUMNS = (
    "id, owner_id, device_id, run_id, root_id, tool, offer, arguments, run_context, state, timeout_s, deadline,"
    " created_at, sent_at, attempt, late, is_awaited, cancel_reason"
)
INSERT = f"INSERT INTO {CALLS} ({COLUMNS}) VALUES ({', '.join(['%s'] * 14)}, 1, %s, %s, '')"  # noqa: S608
OPEN = f"SELECT id, device_id, run_id, state, deadline, finished_at, is_awaited FROM {CALLS} WHERE id IN "  # noqa: S608
SETTLE = f"UPDATE {CALLS} SET state = %s, result = %s, error = %s, late = %s, finished_at = %s WHERE id = %s"  # noqa: S608

SEEN = f"UPDATE {DEVICES} SET last_seen = %s WHERE id IN "  # noqa: S608


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
        return bool(self.socket) and self.last_seen is not None and self.last_seen > now - silence_allowed()


@dataclass(frozen=True, slots=True)
class NewCall:
    """A row to be written; `state` is queued or sent."""

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


def places(owner_id: Any, call_id: UUID) -> tuple[list[Place], bool]:
    """A person's live devices, and whether this call has a row already (False too where there is no device)."""
    with cursor_of_kept(database()) as cursor:
        cursor.execute(PLACES, [plain(call_id), owner_id])
        rows = cursor.fetchall()
    found = [
        Place(uuid_of(pk), name, tools_of(tools), socket, time_of(seen), time_of(since))
        for pk, name, tools, socket, seen, since, _ in rows
    ]
    return found, any(row[-1] for row in rows)


def insert(calls: Iterable[NewCall]) -> None:
    """Write new rows in one transaction. Raises IntegrityError when one of them is there already."""
    values = [
        (
            *map(plain, (call.id, call.owner_id, call.device_id, call.run_id, call.root_id)),
            *(call.tool, call.offer, json.dumps(call.arguments), json.dumps(call.run_context)),
            *(call.state, call.timeout_s, plain(call.deadline), plain(call.created_at), plain(call.sent_at)),
            *(False, False),
        )
        for call in calls
    ]
    with transaction.atomic(), cursor_of_kept(database()) as cursor:
        cursor.executemany(INSERT, values)


def lock(ids: Collection[UUID]) -> dict[UUID, OpenCall]:
    """Rows by id, held until the transaction ends."""
    if not ids:
        return {}
    hold = " FOR UPDATE" if connection.features.has_select_for_update else ""
    with connection.cursor() as cursor:
        cursor.execute(f"{OPEN}{places_for(ids)}{hold}", [plain(id) for id in ids])
        rows = cursor.fetchall()
    found = [
        OpenCall(uuid_of(id), uuid_of(device), uuid_of(run), state, time_of(deadline), time_of(finished), bool(awaited))
        for id, device, run, state, deadline, finished, awaited in rows
    ]
    return {row.id: row for row in found}


def settle(rows: Iterable[OpenCall]) -> None:
    values = [
        (row.state, dumped(row.result), dumped(row.error), row.late, plain(row.finished_at), plain(row.id))
        for row in rows
    ]
    with cursor_of_kept(database()) as cursor:
        cursor.executemany(SETTLE, values)


def note_seen(ids: Collection[UUID], now: datetime) -> None:
    """These devices were heard of."""
    with connection.cursor() as cursor:
        cursor.execute(f"{SEEN}{places_for(ids)}", [plain(now), *map(plain, ids)])


def places_for(ids: Collection[UUID]) -> str:
    return f"({', '.join(['%s'] * len(ids))})"


# -- values, as either database takes and gives them ------------------------------------------------------------------


def plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return value if connection.vendor == "postgresql" else value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def dumped(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def uuid_of(value: Any) -> Any:
    return UUID(value) if isinstance(value, str) else value


def time_of(value: datetime | None) -> datetime | None:
    """SQLite keeps no zone; what we write is UTC."""
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def tools_of(text: Any) -> dict[str, str]:
    return parsed(text) if isinstance(text, str) else text


@lru_cache(maxsize=256)
def parsed(text: str) -> dict[str, str]:
    """Most devices have the same tools; nobody changes what this returns."""
    return json.loads(text)
