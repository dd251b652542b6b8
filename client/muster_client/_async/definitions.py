"""Agents, functions, skills, collections, tools, providers and chains as YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..requests import Request, drop_unset
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncDefinitions:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def export(self, *, kind: str | None = None) -> str:
        """Your own rows as YAML documents. Secrets are never included."""
        params = drop_unset(kind=kind)
        body = await self._transport.json(Request("GET", "definitions/", params=params))
        return str(body["yaml"])

    async def plan(self, yaml: str) -> list[types.PlannedChange]:
        """What `apply` would change. Nothing is stored."""
        return await self._post("plan", yaml)

    async def apply(self, yaml: str) -> list[types.PlannedChange]:
        """Create and change rows as the documents say, and publish them: all of them or none."""
        return await self._post("apply", yaml)

    async def _post(self, verb: str, yaml: str) -> list[types.PlannedChange]:
        request = Request("POST", f"definitions/{verb}", json={"yaml": yaml})
        body = await self._transport.json(request)
        changes: list[types.PlannedChange] = body["changes"]
        return changes
