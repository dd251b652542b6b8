# Generated from _async/stream.py by client/generate.py: change that file, then run `make reference`.
"""The events of one run, each once and in order, over as many connections as it takes."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from types import TracebackType
from typing import Any

import httpx
from httpx_sse import EventSource, SSEError

from ..errors import APIError, StreamCutError
from ..events import Event, Position, Text
from ..requests import Request, segment
from .transport import Transport


class Stream:
    """Use it in a `with` statement and iterate over it: it ends after `run.finished`.

    A broken connection is opened again behind the last event that was read. Leaving the stream does
    not stop the run. `run` and `session` are ids; `reply` and `status` are set at the end.
    """

    def __init__(self, transport: Transport, request: Request, *, run: str | None = None, after: int = 0) -> None:
        self._transport, self._request = transport, request
        self._position = Position(after)
        self._response: httpx.Response | None = None
        self.run = run
        self.session: str | None = None
        self.status: str | None = None
        self.final: dict[str, Any] = {}

    @property
    def reply(self) -> str | None:
        """The text of the reply, once the run has ended."""
        reply = self.final.get("reply")
        return str(reply.get("text", "")) if isinstance(reply, dict) else None

    def __enter__(self) -> Stream:
        self._response = self._transport.open_stream(self._request)
        self.run = self._response.headers.get("muster-run", self.run)
        self.session = self._response.headers.get("muster-session")
        if self._response.status_code == 204:
            self._finish()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def __iter__(self) -> Generator[Event, None]:
        cuts = 0
        while self.status is None and self._response is not None:
            mark = self._position.mark
            with closing(self._connection(self._response)) as events:
                for event in events:
                    if event.is_last:
                        self.final, self.status = event.data, str(event.data.get("status", ""))
                    yield event
                    if event.is_last:
                        return
            # Only cuts in a row count: a line that brings something is good.
            cuts = cuts + 1 if mark == self._position.mark else 1
            self._resume(cuts)

    def texts(self) -> Generator[str, None]:
        """The reply as it is written, piece by piece."""
        text = Text()
        with closing(self.__iter__()) as events:
            for event in events:
                if piece := text.add(event):
                    yield piece

    def until_done(self) -> Stream:
        """Read the remaining events, and return the stream for its `reply` and `status`."""
        with closing(self.__iter__()) as events:
            for _ in events:
                pass
        return self

    def _connection(self, response: httpx.Response) -> Generator[Event, None]:
        """The new events of one connection; a cut ends it quietly."""
        try:
            for message in EventSource(response).iter_sse():
                if event := self._position.accept(message.data):
                    yield event
        except (httpx.TransportError, httpx.StreamError, SSEError):
            return

    def _resume(self, cuts: int) -> None:
        """Open the stream again behind the last event. Raises StreamCutError if that is in vain."""
        self.close()
        if self.run is None or cuts > self._transport.retries.limit + 1:
            raise StreamCutError("The event stream broke. The run goes on.", run=self.run)
        if cuts > 1:
            time.sleep(self._transport.retries.pause(cuts - 2))
        headers = {"Last-Event-ID": str(self._position.seen)}
        request = Request("GET", f"runs/{segment(self.run)}/stream", headers=headers)
        try:
            response = self._transport.open_stream(request)
        except APIError:
            # The server is there and refuses, for example because the key was revoked: that is no cut.
            raise
        except Exception as error:
            raise StreamCutError(f"The event stream broke: {error} The run goes on.", run=self.run) from error
        self._response = response
        # Every event was read, and yet not the last one: read it as a row.
        if response.status_code == 204:
            self._finish()

    def _finish(self) -> None:
        row = self._transport.json(Request("GET", f"runs/{segment(str(self.run))}"))
        self.final, self.status = row, str(row["status"])
