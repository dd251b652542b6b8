"""Runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import APITimeoutError
from ..events import Event
from ..requests import Request, drop_unset, new_key, segment
from .pages import AsyncPages, keep_row
from .questions import AsyncApproval, AsyncApprovals, AsyncInputRequest, AsyncInputRequests
from .stream import AsyncStream
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .. import types

# A cursor beyond the last event.
FROM_NOW_ON = 999_999_999


class AsyncRun:
    """A run as it was when it was read; `refresh` reads it again. `data` has every field."""

    def __init__(self, transport: AsyncTransport, data: types.Run) -> None:
        self._transport, self.data = transport, data

    def __repr__(self) -> str:
        return f"<run {self.id} {self.status}>"

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def status(self) -> str:
        """queued, running, waiting, or how it ended: succeeded, partial, failed, cancelled, expired."""
        return str(self.data.get("status"))

    @property
    def waiting_for(self) -> str:
        """What a waiting run waits for, for example `approval`; else empty."""
        return self.data.get("waiting_for") or ""

    @property
    def is_finished(self) -> bool:
        return bool(self.data.get("finished_at"))

    @property
    def output(self) -> Any:
        return self.data.get("output")

    @property
    def text(self) -> str | None:
        """The reply, once it has ended; `wait` and `refresh` read it. None of a chain."""
        reply = self.data.get("reply")
        return reply["text"] if reply else None

    @property
    def error(self) -> types.RunError | None:
        return self.data.get("error")

    async def refresh(self) -> AsyncRun:
        self.data = await self._transport.json(Request("GET", self._path()))
        return self

    async def cancel(self, reason: str = "") -> AsyncRun:
        """Stop it and its children. ConflictError if it has ended."""
        body = drop_unset(reason=reason or None)
        self.data = await self._transport.json(Request("POST", self._path("cancel"), json=body))
        return self

    async def retry(
        self,
        *,
        step: str | None = None,
        input: Any = None,
        live: bool | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncRun:
        """Start a new run in place of one that has ended. `step` is where a chain continues, and
        `live` uses the agent's present version.
        """
        headers = {"Idempotency-Key": idempotency_key or new_key()}
        body = drop_unset(step=step, input=input, live=live)
        request = Request("POST", self._path("retry"), json=body, headers=headers)
        data = await self._transport.json(request)
        return AsyncRun(self._transport, data)

    def stream(self, *, after: int = 0) -> AsyncStream:
        """Events after this number as they happen, until the run has ended."""
        params = drop_unset(after=after or None)
        request = Request("GET", self._path("stream"), params=params)
        return AsyncStream(self._transport, request, run=self.id, after=after)

    async def wait(self, timeout: float | None = None) -> AsyncRun:
        """Until it has ended, which an event says. With a timeout in seconds the row is read now and
        then, and APITimeoutError is raised when the time is over.
        """
        if timeout is not None:
            return await self._poll(time.monotonic() + timeout)
        request = Request("GET", self._path("stream"), params={"after": FROM_NOW_ON})
        async with AsyncStream(self._transport, request, run=self.id) as stream:
            await stream.until_done()
        return await self.refresh()

    async def _poll(self, until: float) -> AsyncRun:
        # The row is read more and more seldom: who waits for a minute can wait for two seconds more.
        pause = 0.1
        while not (await self.refresh()).is_finished:
            remaining_s = until - time.monotonic()
            if remaining_s <= 0:
                raise APITimeoutError(f"The run {self.id} is still {self.status}.")
            await anyio.sleep(min(pause, remaining_s))
            pause = min(2.0, pause * 1.5)
        return self

    def events(self, *, after: int = 0) -> AsyncPages[Event]:
        """The stored events so far."""
        params = drop_unset(after=after or None)
        return AsyncPages(self._transport, self._path("events"), params, Event.of)

    def tool_calls(self) -> AsyncPages[types.ToolCall]:
        return AsyncPages(self._transport, self._path("tool-calls/"), {}, keep_row)

    def children(self) -> AsyncPages[AsyncRun]:
        return AsyncPages(self._transport, self._path("children/"), {}, self._build_child)

    def steps(self) -> AsyncPages[types.StepRun]:
        """The steps of a chain's run."""
        return AsyncPages(self._transport, self._path("steps/"), {}, keep_row)

    def approvals(self) -> AsyncPages[AsyncApproval]:
        """What it waits for a person to decide."""
        return AsyncApprovals(self._transport).list(run=self.id)

    def inputs(self) -> AsyncPages[AsyncInputRequest]:
        """What it asks: answers to questions, and results of tools that the caller executes."""
        return AsyncInputRequests(self._transport).list(run=self.id)

    def _build_child(self, data: types.Run) -> AsyncRun:
        return AsyncRun(self._transport, data)

    def _path(self, *more: str) -> str:
        return "/".join(["runs", segment(self.id), *more])


class AsyncRuns:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self, **filters: Any) -> AsyncPages[AsyncRun]:
        """Newest first. Filters are fields such as `agent`, `chain`, `status`, `session`."""
        return AsyncPages(self._transport, "runs/", filters, self._build)

    async def get(self, id: str) -> AsyncRun:
        request = Request("GET", f"runs/{segment(id)}")
        data = await self._transport.json(request)
        return self._build(data)

    def _build(self, data: types.Run) -> AsyncRun:
        return AsyncRun(self._transport, data)
