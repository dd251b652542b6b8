"""What runs wait for: approvals of tool calls, and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..requests import Request, drop_unset, segment
from .pages import AsyncPages
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncApproval:
    """A tool call that waits for a person. `data` has every field."""

    def __init__(self, transport: AsyncTransport, data: types.Approval) -> None:
        self._transport, self.data = transport, data

    def __repr__(self) -> str:
        return f"<approval {self.id} of {self.tool}: {self.status}>"

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def run(self) -> str:
        return self.data["run"]

    @property
    def tool(self) -> str:
        return self.data["tool"]

    @property
    def arguments(self) -> dict[str, Any]:
        return self.data.get("arguments") or {}

    @property
    def status(self) -> str:
        return str(self.data.get("status"))

    async def approve(self, *, arguments: Mapping[str, Any] | None = None, note: str = "") -> AsyncApproval:
        """Let the call be made, with other arguments if they are given. The key needs the scope
        `approvals:decide`. ConflictError if it was decided before.
        """
        return await self._decide("approve", arguments, note)

    async def deny(self, *, note: str = "") -> AsyncApproval:
        """Refuse the call; the agent continues without it."""
        return await self._decide("deny", None, note)

    async def _decide(self, decision: str, arguments: Mapping[str, Any] | None, note: str) -> AsyncApproval:
        body = drop_unset(decision=decision, arguments=arguments, note=note or None)
        request = Request("POST", f"approvals/{segment(self.id)}", json=body)
        self.data = await self._transport.json(request)
        return self


class AsyncApprovals:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self, **filters: Any) -> AsyncPages[AsyncApproval]:
        """The open ones. Filters are `run`, `tool` and `status`, which also lists decided ones."""
        return AsyncPages(self._transport, "approvals/", filters, self._build)

    async def get(self, id: str) -> AsyncApproval:
        request = Request("GET", f"approvals/{segment(id)}")
        data = await self._transport.json(request)
        return self._build(data)

    def _build(self, data: types.Approval) -> AsyncApproval:
        return AsyncApproval(self._transport, data)


class AsyncInputRequest:
    """What a run asks the person or the program that sent the message. `data` has every field."""

    def __init__(self, transport: AsyncTransport, data: types.InputRequest) -> None:
        self._transport, self.data = transport, data

    def __repr__(self) -> str:
        return f"<input {self.id} {self.name}: {self.status}>"

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def run(self) -> str:
        return self.data["run"]

    @property
    def kind(self) -> str:
        """`form` for a question to the person, `tool` for a tool that the caller executes."""
        return self.data["kind"]

    @property
    def name(self) -> str:
        return self.data["name"]

    @property
    def prompt(self) -> str:
        return self.data.get("prompt") or ""

    @property
    def arguments(self) -> dict[str, Any]:
        return self.data.get("arguments") or {}

    @property
    def schema(self) -> dict[str, Any]:
        """What the answer must look like."""
        return self.data.get("schema") or {}

    @property
    def status(self) -> str:
        return str(self.data.get("status"))

    async def answer(self, value: Any) -> AsyncInputRequest:
        """The run continues. ConflictError if it was answered before."""
        return await self._close({"value": value})

    async def fail(self, code: str, message: str) -> AsyncInputRequest:
        """The tool cannot do it; the model reads why."""
        return await self._close({"error": {"code": code, "message": message}})

    async def decline(self) -> AsyncInputRequest:
        return await self._close({"decline": True})

    async def _close(self, body: dict[str, Any]) -> AsyncInputRequest:
        request = Request("POST", f"inputs/{segment(self.id)}", json=body)
        self.data = await self._transport.json(request)
        return self


class AsyncInputRequests:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self, **filters: Any) -> AsyncPages[AsyncInputRequest]:
        """The open ones. Filters are `run`, `kind` and `status`, which also lists closed ones."""
        return AsyncPages(self._transport, "inputs/", filters, self._build)

    async def get(self, id: str) -> AsyncInputRequest:
        request = Request("GET", f"inputs/{segment(id)}")
        data = await self._transport.json(request)
        return self._build(data)

    def _build(self, data: types.InputRequest) -> AsyncInputRequest:
        return AsyncInputRequest(self._transport, data)
