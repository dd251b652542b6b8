"""JSON-RPC messages of MCP, the versions of the protocol, and what a transport must offer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from .exceptions import McpFailed, McpRefused
from .sse import Position

# This version has no sessions: each request carries version and capabilities.
MODERN = "2026-07-28"
# The newest version that begins with `initialize`.
LEGACY = "2025-11-25"
LEGACY_VERSIONS = frozenset([LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"])
CLIENT = {"name": "muster", "version": "1"}
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
INITIALIZE: dict[str, Any] = {"protocolVersion": LEGACY, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
JSON = Any
Message = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class Left:
    """A stream of an earlier version that can be continued by any process."""

    session_id: str
    version: str
    position: Position


class Exchange(Protocol):
    """The messages that come back for one message, until the answer to it."""

    def __iter__(self) -> Iterator[Message]: ...

    def left(self) -> Left | None:
        """Where another process can go on reading; None if nobody else can."""


class Transport(Protocol):
    """Sends messages. `until` is a moment of time.monotonic()."""

    version: str
    # Closing the stream cancels a request of the newest version.
    cancels_by_closing: bool

    @property
    def is_open(self) -> bool: ...

    def exchange(self, message: Message, until: float, headers: dict[str, str]) -> Exchange: ...

    def send(self, message: Message, until: float) -> None: ...

    def close(self) -> None: ...


def request(identity: int, method: str, params: dict[str, JSON]) -> Message:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def notification(method: str, params: dict[str, JSON] | None = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params:
        message["params"] = params
    return message


def get_rpc_result(message: Message) -> dict[str, JSON]:
    # Some servers write `"error": null` beside a result.
    if message.get("error") is not None:
        raise McpRefused(message["error"])
    result = message.get("result")
    if not isinstance(result, dict):
        raise McpFailed("bad_answer", "The server's answer holds no result.")
    return result


def read_messages(text: str) -> list[Message]:
    """The messages of an answer: one, or several as an array (version 2025-03-26). Raises McpFailed."""
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        raise McpFailed("bad_answer", "The server's answer is not JSON.")
    messages = value if isinstance(value, list) else [value]
    if not all(isinstance(message, dict) for message in messages):
        raise McpFailed("bad_answer", "The server's answer is not a JSON-RPC message.")
    return messages


def find_messages(text: str) -> list[Message]:
    """The messages of a line or event; none if it holds something else, as when a server prints its log there."""
    try:
        return read_messages(text)
    except McpFailed:
        return []


def is_answer(message: Message, identity: JSON) -> bool:
    """Whether this answers the request; some servers send its number back as text, or none with an error."""
    if "method" in message:
        return False
    if message.get("id") is None:
        return message.get("error") is not None
    return message["id"] == identity or message["id"] == str(identity)


def get_url_host(url: str) -> str:
    return urlsplit(url).hostname or ""
