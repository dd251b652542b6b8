# Generated from _async/questions.py by client/generate.py: change that file, then run `make reference`.
"""What runs wait for: approvals of tool calls, and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..requests import Request, drop_unset, segment
from .pages import Pages
from .transport import Transport

if TYPE_CHECKING:
    from .. import types


class Approval:
    """A tool call that waits for a person. `data` has every field."""

    def __init__(self, transport: Transport, data: types.Approval) -> None:
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

    def approve(self, *, arguments: Mapping[str, Any] | None = None, note: str = "") -> Approval:
        """Let the call be made, with other arguments if they are given. The key needs the scope
        `approvals:decide`. ConflictError if it was decided before.
        """
        return self._decide("approve", arguments, note)

    def deny(self, *, note: str = "") -> Approval:
        """Refuse the call; the agent continues without it."""
        return self._decide("deny", None, note)

    def _decide(self, decision: str, arguments: Mapping[str, Any] | None, note: str) -> Approval:
        body = drop_unset(decision=decision, arguments=arguments, note=note or None)
        request = Request("POST", f"approvals/{segment(self.id)}", json=body)
        self.data = self._transport.json(request)
        return self


class Approvals:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: Any) -> Pages[Approval]:
        """The open ones. Filters are `run`, `tool` and `status`, which also lists decided ones."""
        return Pages(self._transport, "approvals/", filters, self._build)

    def get(self, id: str) -> Approval:
        request = Request("GET", f"approvals/{segment(id)}")
        data = self._transport.json(request)
        return self._build(data)

    def _build(self, data: types.Approval) -> Approval:
        return Approval(self._transport, data)


class InputRequest:
    """What a run asks the person or the program that sent the message. `data` has every field."""

    def __init__(self, transport: Transport, data: types.InputRequest) -> None:
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

    def answer(self, value: Any) -> InputRequest:
        """The run continues. ConflictError if it was answered before."""
        return self._close({"value": value})

    def fail(self, code: str, message: str) -> InputRequest:
        """The tool cannot do it; the model reads why."""
        return self._close({"error": {"code": code, "message": message}})

    def decline(self) -> InputRequest:
        return self._close({"decline": True})

    def _close(self, body: dict[str, Any]) -> InputRequest:
        request = Request("POST", f"inputs/{segment(self.id)}", json=body)
        self.data = self._transport.json(request)
        return self


class InputRequests:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: Any) -> Pages[InputRequest]:
        """The open ones. Filters are `run`, `kind` and `status`, which also lists closed ones."""
        return Pages(self._transport, "inputs/", filters, self._build)

    def get(self, id: str) -> InputRequest:
        request = Request("GET", f"inputs/{segment(id)}")
        data = self._transport.json(request)
        return self._build(data)

    def _build(self, data: types.InputRequest) -> InputRequest:
        return InputRequest(self._transport, data)
