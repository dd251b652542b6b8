"""Agents, functions, skills, collections, tools, providers and chains as YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..requests import Request, drop_unset
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncDefinitions:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def export(self, *, kind: str | None = None) -> str:
        """Your own rows as YAML documents. Secrets are never included."""
        body = await self._transport.json(Request("GET", "definitions/", params=drop_unset(kind=kind)))
        return str(body["yaml"])

    async def plan(self, yaml: str) -> list[types.PlannedChange]:
        """What `apply` would change. Nothing is stored."""
        body = await self._transport.json(Request("POST", "definitions/plan", json={"yaml": yaml}))
        return cast("list[types.PlannedChange]", body["changes"])

    async def apply(self, yaml: str) -> list[types.PlannedChange]:
        """Create and change rows as the documents say, and publish them: all of them or none."""
        body = await self._transport.json(Request("POST", "definitions/apply", json={"yaml": yaml}))
        return cast("list[types.PlannedChange]", body["changes"])
