# Generated from _async/runs.py by client/generate.py: change that file, then run `make reference`.
"""Runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..errors import APITimeoutError
from ..events import Event
from ..requests import Request, drop_unset, new_key, segment
from .pages import Pages, keep_row
from .questions import Approval, Approvals, InputRequest, InputRequests
from .stream import Stream
from .transport import Transport

if TYPE_CHECKING:
    from .. import types

# A cursor beyond the last event.
FROM_NOW_ON = 999_999_999


class Run:
    """A run as it was when it was read; `refresh` reads it again. `data` has every field."""

    def __init__(self, transport: Transport, data: types.Run) -> None:
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

    def refresh(self) -> Run:
        self.data = self._transport.json(Request("GET", self._path()))
        return self

    def cancel(self, reason: str = "") -> Run:
        """Stop it and its children. ConflictError if it has ended."""
        body = drop_unset(reason=reason or None)
        self.data = self._transport.json(Request("POST", self._path("cancel"), json=body))
        return self

    def retry(
        self,
        *,
        step: str | None = None,
        input: Any = None,
        live: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Start a new run in place of one that has ended. `step` is where a chain continues, and
        `live` uses the agent's present version.
        """
        headers = {"Idempotency-Key": idempotency_key or new_key()}
        body = drop_unset(step=step, input=input, live=live)
        request = Request("POST", self._path("retry"), json=body, headers=headers)
        data = self._transport.json(request)
        return Run(self._transport, data)

    def stream(self, *, after: int = 0) -> Stream:
        """Events after this number as they happen, until the run has ended."""
        params = drop_unset(after=after or None)
        request = Request("GET", self._path("stream"), params=params)
        return Stream(self._transport, request, run=self.id, after=after)

    def wait(self, timeout: float | None = None) -> Run:
        """Until it has ended, which an event says. With a timeout in seconds the row is read now and
        then, and APITimeoutError is raised when the time is over.
        """
        if timeout is not None:
            return self._poll(time.monotonic() + timeout)
        request = Request("GET", self._path("stream"), params={"after": FROM_NOW_ON})
        with Stream(self._transport, request, run=self.id) as stream:
            stream.until_done()
        return self.refresh()

    def _poll(self, until: float) -> Run:
        # The row is read more and more seldom: who waits for a minute can wait for two seconds more.
        pause = 0.1
        while not (self.refresh()).is_finished:
            remaining_s = until - time.monotonic()
            if remaining_s <= 0:
                raise APITimeoutError(f"The run {self.id} is still {self.status}.")
            time.sleep(min(pause, remaining_s))
            pause = min(2.0, pause * 1.5)
        return self

    def events(self, *, after: int = 0) -> Pages[Event]:
        """The stored events so far."""
        params = drop_unset(after=after or None)
        return Pages(self._transport, self._path("events"), params, Event.of)

    def tool_calls(self) -> Pages[types.ToolCall]:
        return Pages(self._transport, self._path("tool-calls/"), {}, keep_row)

    def children(self) -> Pages[Run]:
        return Pages(self._transport, self._path("children/"), {}, self._build_child)

    def steps(self) -> Pages[types.StepRun]:
        """The steps of a chain's run."""
        return Pages(self._transport, self._path("steps/"), {}, keep_row)

    def approvals(self) -> Pages[Approval]:
        """What it waits for a person to decide."""
        return Approvals(self._transport).list(run=self.id)

    def inputs(self) -> Pages[InputRequest]:
        """What it asks: answers to questions, and results of tools that the caller executes."""
        return InputRequests(self._transport).list(run=self.id)

    def _build_child(self, data: types.Run) -> Run:
        return Run(self._transport, data)

    def _path(self, *more: str) -> str:
        return "/".join(["runs", segment(self.id), *more])


class Runs:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: Any) -> Pages[Run]:
        """Newest first. Filters are fields such as `agent`, `chain`, `status`, `session`."""
        return Pages(self._transport, "runs/", filters, self._build)

    def get(self, id: str) -> Run:
        request = Request("GET", f"runs/{segment(id)}")
        data = self._transport.json(request)
        return self._build(data)

    def _build(self, data: types.Run) -> Run:
        return Run(self._transport, data)
