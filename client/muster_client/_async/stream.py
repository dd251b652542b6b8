"""The events of one run, each once and in order, over as many connections as it takes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Any

import anyio
import httpx
from httpx_sse import EventSource, SSEError

from ..errors import APIError, StreamCutError
from ..events import Event, Position, Text
from ..requests import Request, segment
from .transport import AsyncTransport


class AsyncStream:
    """Use it in a `with` statement and iterate over it: it ends after `run.finished`.

    A broken connection is opened again behind the last event that was read. Leaving the stream does
    not stop the run. `run` and `session` are ids; `reply` and `status` are set at the end.
    """

    def __init__(self, transport: AsyncTransport, request: Request, *, run: str | None = None, after: int = 0) -> None:
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

    async def __aenter__(self) -> AsyncStream:
        self._response = await self._transport.open_stream(self._request)
        self.run = self._response.headers.get("muster-run", self.run)
        self.session = self._response.headers.get("muster-session")
        if self._response.status_code == 204:
            await self._finish()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()
            self._response = None

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        cuts = 0
        while self.status is None and self._response is not None:
            mark = self._position.mark
            async with aclosing(self._connection(self._response)) as events:
                async for event in events:
                    if event.is_last:
                        self.final, self.status = event.data, str(event.data.get("status", ""))
                    yield event
                    if event.is_last:
                        return
            # Only cuts in a row count: a line that brings something is good.
            cuts = cuts + 1 if mark == self._position.mark else 1
            await self._resume(cuts)

    async def texts(self) -> AsyncGenerator[str, None]:
        """The reply as it is written, piece by piece."""
        text = Text()
        async with aclosing(self.__aiter__()) as events:
            async for event in events:
                if piece := text.add(event):
                    yield piece

    async def until_done(self) -> AsyncStream:
        """Read the remaining events, and return the stream for its `reply` and `status`."""
        async with aclosing(self.__aiter__()) as events:
            async for _ in events:
                pass
        return self

    async def _connection(self, response: httpx.Response) -> AsyncGenerator[Event, None]:
        """The new events of one connection; a cut ends it quietly."""
        try:
            async for message in EventSource(response).aiter_sse():
                if event := self._position.accept(message.data):
                    yield event
        except (httpx.TransportError, httpx.StreamError, SSEError):
            return

    async def _resume(self, cuts: int) -> None:
        """Open the stream again behind the last event. Raises StreamCutError if that is in vain."""
        await self.close()
        if self.run is None or cuts > self._transport.retries.limit + 1:
            raise StreamCutError("The event stream broke. The run goes on.", run=self.run)
        if cuts > 1:
            await anyio.sleep(self._transport.retries.pause(cuts - 2))
        headers = {"Last-Event-ID": str(self._position.seen)}
        request = Request("GET", f"runs/{segment(self.run)}/stream", headers=headers)
        try:
            response = await self._transport.open_stream(request)
        except APIError:
            # The server is there and refuses, for example because the key was revoked: that is no cut.
            raise
        except Exception as error:
            raise StreamCutError(f"The event stream broke: {error} The run goes on.", run=self.run) from error
        self._response = response
        # Every event was read, and yet not the last one: read it as a row.
        if response.status_code == 204:
            await self._finish()

    async def _finish(self) -> None:
        row = await self._transport.json(Request("GET", f"runs/{segment(str(self.run))}"))
        self.final, self.status = row, str(row["status"])
