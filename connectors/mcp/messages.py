"""JSON-RPC messages of MCP, the versions of the protocol, and what a transport must offer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from .exceptions import McpFailed, McpRefused
from .sse import Position

MODERN = "2026-07-28"  # no sessions: each request carries version and capabilities
LEGACY = "2025-11-25"  # the newest version that begins with `initialize`
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
    cancels_by_closing: bool  # closing the stream cancels a request of the newest version

    @property
    def is_open(self) -> bool: ...

    def exchange(self, message: Message, until: float, headers: dict[str, str]) -> Exchange: ...

    def send(self, message: Message, until: float) -> None: ...

    def close(self) -> None: ...


def request(identity: int, method: str, params: dict[str, JSON]) -> Message:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def notification(method: str, params: dict[str, JSON] | None = None) -> Message:
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}


def result_of(message: Message) -> dict[str, JSON]:
    if "error" in message:
        raise McpRefused(message["error"])
    result = message.get("result")
    if not isinstance(result, dict):
        raise McpFailed("bad_answer", "The server's answer holds no result.")
    return result


def parsed(text: str) -> Message:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise McpFailed("bad_answer", "The server's answer is not JSON.")
    if not isinstance(value, dict):
        raise McpFailed("bad_answer", "The server's answer is not a JSON-RPC message.")
    return value


def host_of(url: str) -> str:
    return urlsplit(url).hostname or ""
