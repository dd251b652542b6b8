"""Agents, messages to them, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..requests import Request, drop_unset, new_key, segment
from .collections import AsyncVersioned
from .runs import AsyncRun
from .stream import AsyncStream
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .. import types

WAIT_S = 60.0
# The server answers a little after the wait.
ROOM_S = 30.0


@dataclass(frozen=True)
class AsyncAnswer:
    """What came back within the wait. `text` is None while the run is at work or waits."""

    run: AsyncRun
    session: str
    text: str | None = None
    output: Any = None
    route: types.Route | None = None

    @property
    def is_finished(self) -> bool:
        return self.run.is_finished


class AsyncMessage:
    """A message that was not sent yet: `send`, `start` or `stream` sends it.

    All of them carry the same idempotency key, so that sending it again, after an error or by
    mistake, returns the same run.
    """

    def __init__(
        self, transport: AsyncTransport, path: str, body: dict[str, Any], key: str | None, conversation: Any = None
    ) -> None:
        self._transport, self._path, self._body = transport, path, body
        self._conversation = conversation
        self.idempotency_key = key or new_key()

    async def send(self, *, wait: float = WAIT_S) -> AsyncAnswer:
        """Wait for the reply, at most `wait` seconds. After that the run continues."""
        request = self._request({**self._body, "wait": wait}, timeout=wait + ROOM_S)
        body = await self._transport.json(request)
        return self._build_answer(body)

    async def start(self) -> AsyncRun:
        """Return the run at once."""
        request = self._request(self._body, Prefer="respond-async")
        body = await self._transport.json(request)
        return self._build_answer(body).run

    def stream(self) -> AsyncStream:
        """The run's events as they happen: `with message.stream() as events: for event in events: …`"""
        request = self._request(self._body)
        return AsyncMessageStream(self._transport, request, self._conversation)

    def _request(self, body: dict[str, Any], *, timeout: float | None = None, **headers: str) -> Request:
        headers = {"Idempotency-Key": self.idempotency_key, **headers}
        return Request("POST", self._path, json=body, headers=headers, timeout=timeout)

    def _build_answer(self, body: dict[str, Any]) -> AsyncAnswer:
        if self._conversation is not None:
            self._conversation.session = body["session"]
        run = AsyncRun(self._transport, body["run"])
        reply = body.get("reply")
        text = reply["text"] if reply else None
        return AsyncAnswer(run, body["session"], text, body.get("output"), body.get("route"))


class AsyncMessageStream(AsyncStream):
    """Tells the conversation its session, so that the next message continues it."""

    def __init__(self, transport: AsyncTransport, request: Request, conversation: Any) -> None:
        super().__init__(transport, request)
        self._conversation = conversation

    async def __aenter__(self) -> AsyncStream:
        await super().__aenter__()
        if self._conversation is not None:
            self._conversation.session = self.session
        return self


class AsyncConversation:
    """Messages in one session, which the first message opens unless one is given."""

    def __init__(self, transport: AsyncTransport, path: str, session: str | None = None) -> None:
        self._transport, self._path = transport, path
        self.session = session

    def message(
        self,
        message: str | list[dict[str, Any]],
        *,
        input: Any = None,
        metadata: Mapping[str, Any] | None = None,
        on_busy: str | None = None,
        timeout: float | None = None,
        version: int | None = None,
        device: str | None = None,
        idempotency_key: str | None = None,
        **more: Any,
    ) -> AsyncMessage:
        """A text or a list of content parts. `timeout` is the run's deadline in seconds, and `more`
        are further fields of the message.
        """
        body = drop_unset(
            message=message, session=self.session, input=input, metadata=metadata, on_busy=on_busy, timeout=timeout,
            version=version, device=device, **more,
        )  # fmt: skip
        return AsyncMessage(self._transport, self._path, body, idempotency_key, self)


class AsyncAgent:
    """An agent by its name. Nothing is requested until you use it."""

    def __init__(self, transport: AsyncTransport, name: str) -> None:
        self._transport, self.name = transport, name

    def message(self, message: str | list[dict[str, Any]], *, session: str | None = None, **more: Any) -> AsyncMessage:
        """A message outside any conversation, or in a session; see `AsyncConversation.message`."""
        return self.conversation(session).message(message, **more)

    def conversation(self, session: str | None = None) -> AsyncConversation:
        path = f"agents/{segment(self.name)}/messages"
        return AsyncConversation(self._transport, path, session)


class AsyncAgents(AsyncVersioned["types.Agent", "types.AgentRequest", "types.PatchedAgentRequest"]):
    """The working rows of agents, and their versions."""

    async def grants(self, name: str) -> list[types.Grant]:
        """The tools that the draft may use."""
        grants: list[types.Grant] = await self._call("GET", name, "grants/")
        return grants
