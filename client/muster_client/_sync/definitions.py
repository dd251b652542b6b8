# Generated from _async/definitions.py by client/generate.py: change that file, then run `make reference`.
"""Agents, functions, skills, collections, tools, providers and chains as YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..requests import Request, drop_unset
from .transport import Transport

if TYPE_CHECKING:
    from .. import types


class Definitions:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def export(self, *, kind: str | None = None) -> str:
        """Your own rows as YAML documents. Secrets are never included."""
        body = self._transport.json(Request("GET", "definitions/", params=drop_unset(kind=kind)))
        return str(body["yaml"])

    def plan(self, yaml: str) -> list[types.PlannedChange]:
        """What `apply` would change. Nothing is stored."""
        body = self._transport.json(Request("POST", "definitions/plan", json={"yaml": yaml}))
        return cast("list[types.PlannedChange]", body["changes"])

    def apply(self, yaml: str) -> list[types.PlannedChange]:
        """Create and change rows as the documents say, and publish them: all of them or none."""
        body = self._transport.json(Request("POST", "definitions/apply", json={"yaml": yaml}))
        return cast("list[types.PlannedChange]", body["changes"])
