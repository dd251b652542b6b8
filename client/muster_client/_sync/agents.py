# Generated from _async/agents.py by client/generate.py: change that file, then run `make reference`.
"""Agents, messages to them, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..requests import Request, drop_unset, new_key, segment
from .collections import Versioned
from .runs import Run
from .stream import Stream
from .transport import Transport

if TYPE_CHECKING:
    from .. import types

WAIT_S = 60.0
# The server answers a little after the wait.
ROOM_S = 30.0


@dataclass(frozen=True)
class Answer:
    """What came back within the wait. `text` is None while the run is at work or waits."""

    run: Run
    session: str
    text: str | None = None
    output: Any = None
    route: types.Route | None = None

    @property
    def is_finished(self) -> bool:
        return self.run.is_finished


class Message:
    """A message that was not sent yet: `send`, `start` or `stream` sends it.

    All of them carry the same idempotency key, so that sending it again, after an error or by
    mistake, returns the same run.
    """

    def __init__(
        self, transport: Transport, path: str, body: dict[str, Any], key: str | None, conversation: Any = None
    ) -> None:
        self._transport, self._path, self._body = transport, path, body
        self._conversation = conversation
        self.idempotency_key = key or new_key()

    def send(self, *, wait: float = WAIT_S) -> Answer:
        """Wait for the reply, at most `wait` seconds. After that the run continues."""
        request = self._request({**self._body, "wait": wait}, timeout=wait + ROOM_S)
        body = self._transport.json(request)
        return self._build_answer(body)

    def start(self) -> Run:
        """Return the run at once."""
        request = self._request(self._body, Prefer="respond-async")
        body = self._transport.json(request)
        return self._build_answer(body).run

    def stream(self) -> Stream:
        """The run's events as they happen: `with message.stream() as events: for event in events: …`"""
        request = self._request(self._body)
        return MessageStream(self._transport, request, self._conversation)

    def _request(self, body: dict[str, Any], *, timeout: float | None = None, **headers: str) -> Request:
        headers = {"Idempotency-Key": self.idempotency_key, **headers}
        return Request("POST", self._path, json=body, headers=headers, timeout=timeout)

    def _build_answer(self, body: dict[str, Any]) -> Answer:
        if self._conversation is not None:
            self._conversation.session = body["session"]
        run = Run(self._transport, body["run"])
        reply = body.get("reply")
        text = reply["text"] if reply else None
        return Answer(run, body["session"], text, body.get("output"), body.get("route"))


class MessageStream(Stream):
    """Tells the conversation its session, so that the next message continues it."""

    def __init__(self, transport: Transport, request: Request, conversation: Any) -> None:
        super().__init__(transport, request)
        self._conversation = conversation

    def __enter__(self) -> Stream:
        super().__enter__()
        if self._conversation is not None:
            self._conversation.session = self.session
        return self


class Conversation:
    """Messages in one session, which the first message opens unless one is given."""

    def __init__(self, transport: Transport, path: str, session: str | None = None) -> None:
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
    ) -> Message:
        """A text or a list of content parts. `timeout` is the run's deadline in seconds, and `more`
        are further fields of the message.
        """
        body = drop_unset(
            message=message, session=self.session, input=input, metadata=metadata, on_busy=on_busy, timeout=timeout,
            version=version, device=device, **more,
        )  # fmt: skip
        return Message(self._transport, self._path, body, idempotency_key, self)


class Agent:
    """An agent by its name. Nothing is requested until you use it."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport, self.name = transport, name

    def message(self, message: str | list[dict[str, Any]], *, session: str | None = None, **more: Any) -> Message:
        """A message outside any conversation, or in a session; see `Conversation.message`."""
        return self.conversation(session).message(message, **more)

    def conversation(self, session: str | None = None) -> Conversation:
        path = f"agents/{segment(self.name)}/messages"
        return Conversation(self._transport, path, session)


class Agents(Versioned["types.Agent", "types.AgentRequest", "types.PatchedAgentRequest"]):
    """The working rows of agents, and their versions."""

    def grants(self, name: str) -> list[types.Grant]:
        """The tools that the draft may use."""
        grants: list[types.Grant] = self._call("GET", name, "grants/")
        return grants
