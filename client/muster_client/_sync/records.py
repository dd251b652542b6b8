# Generated from _async/records.py by client/generate.py: change that file, then run `make reference`.
"""Records that agents keep for the person: suggestions to approve, and what was approved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..requests import Request, segment
from .pages import Pages, keep_row
from .transport import Transport

if TYPE_CHECKING:
    from .. import types


class Records:
    """`kind` is the collection: tasks, notes, timelines, projects or comments."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, kind: str = "", **filters: Any) -> Pages[types.Record]:
        """Records of one kind, or of all; `waiting=True` lists what waits for a decision."""
        path = f"records/{segment(kind)}/" if kind else "records/"
        return Pages(self._transport, path, filters, keep_row)

    def get(self, kind: str, id: str) -> types.Record:
        return self._call("GET", kind, id)

    def update(self, kind: str, id: str, changes: Mapping[str, Any]) -> types.Record:
        """Change these fields and keep the others."""
        return self._call("PATCH", kind, id, json=dict(changes))

    def approve(self, kind: str, id: str) -> types.Record:
        """Approve a suggestion, or carry out a suggested change. ConflictError if nothing waits."""
        return self._call("POST", kind, id, "approve")

    def reject(self, kind: str, id: str, *, reason: str = "") -> types.Record:
        """Keep a suggestion as rejected, or refuse a suggested change. ConflictError if nothing waits."""
        return self._call("POST", kind, id, "reject", json={"reason": reason})

    def _call(self, method: str, *path: str, json: Any = None) -> types.Record:
        place = "/".join(["records", *map(segment, path)])
        record: types.Record = self._transport.json(Request(method, place, json=json))
        return record
