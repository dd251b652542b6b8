"""Records that agents keep for the person: suggestions to approve, and what was approved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..requests import Request, segment
from .pages import AsyncPages, keep_row
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncRecords:
    """`kind` is the collection: tasks, notes, timelines, projects or comments."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self, kind: str = "", **filters: Any) -> AsyncPages[types.Record]:
        """Records of one kind, or of all; `waiting=True` lists what waits for a decision."""
        path = f"records/{segment(kind)}/" if kind else "records/"
        return AsyncPages(self._transport, path, filters, keep_row)

    async def get(self, kind: str, id: str) -> types.Record:
        return await self._call("GET", kind, id)

    async def update(self, kind: str, id: str, changes: Mapping[str, Any]) -> types.Record:
        """Change these fields and keep the others."""
        return await self._call("PATCH", kind, id, json=dict(changes))

    async def approve(self, kind: str, id: str) -> types.Record:
        """Approve a suggestion, or carry out a suggested change. ConflictError if nothing waits."""
        return await self._call("POST", kind, id, "approve")

    async def reject(self, kind: str, id: str, *, reason: str = "") -> types.Record:
        """Keep a suggestion as rejected, or refuse a suggested change. ConflictError if nothing waits."""
        return await self._call("POST", kind, id, "reject", json={"reason": reason})

    async def _call(self, method: str, *path: str, json: Any = None) -> types.Record:
        place = "/".join(["records", *map(segment, path)])
        record: types.Record = await self._transport.json(Request(method, place, json=json))
        return record
