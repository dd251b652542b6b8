"""A conversation with an MCP server, over any transport, in both eras of the protocol.

2026-07-28: every request carries version and capabilities, and the server asks for input by its
result. Earlier versions: `initialize` opens a session, and the server sends requests of its own.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from . import headers as metadata
from .exceptions import InputRequired, McpFailed, McpRefused, SessionLost
from .http import HttpTransport
from .messages import (
    CAPABILITIES,
    CLIENT,
    INITIALIZE,
    JSON,
    LEGACY,
    LEGACY_VERSIONS,
    MODERN,
    Exchange,
    Left,
    Message,
    Transport,
    is_answer,
    notification,
    request,
    result_of,
)
from .sse import Position

PROBE_S = 10.0  # how long a server may take to show that it knows the newest version
MAX_PAGES = 50
METHOD_MISSING = -32601
VERSION_REFUSED = -32022
MODERN_ERRORS = frozenset([-32020, -32021, VERSION_REFUSED])
URL_REQUIRED = -32042  # an earlier version's way to ask for a visit to a page before the call
NO_ANSWER = frozenset(["server_refused", "bad_answer", "server_died", "timeout"])
PREFIX = "io.modelcontextprotocol"


@dataclass(slots=True)
class Listener:
    """What the maker of a call wants to hear, and how it answers.

    `answer` gives the result for an `elicitation/create` of an earlier version, or None if a person must be
    asked first. `may_repeat`: the call may be made again from the start.
    """

    on_progress: Callable[[dict[str, JSON]], None] = lambda params: None
    on_log: Callable[[dict[str, JSON]], None] = lambda params: None
    answer: Callable[[dict[str, JSON]], dict[str, JSON] | None] = lambda params: None
    may_repeat: bool = False


NOBODY = Listener(answer=lambda params: {"action": "cancel"})


@dataclass(slots=True)
class Session:
    """`until` is a moment of time.monotonic(). Threads may share a session whose transport allows it."""

    transport: Transport
    era: str
    server: dict[str, JSON] = field(default_factory=dict)
    tools_changed: bool = False
    list_ttl_s: float | None = None  # how long the server says that its list of tools stays fresh
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def list_tools(self, until: float) -> list[dict[str, JSON]]:
        """Every tool the server offers, all pages of it."""
        tools: list[dict[str, JSON]] = []
        params: dict[str, JSON] = {}
        self.tools_changed = False
        for _ in range(MAX_PAGES):
            page = self.request("tools/list", params, until)
            rows = page.get("tools")
            if not isinstance(rows, list):
                raise McpFailed("bad_answer", "The server's list of tools is not a list.")
            tools += [tool for tool in rows if isinstance(tool, dict)]
            if not page.get("nextCursor"):
                self.list_ttl_s = seconds_of(page.get("ttlMs"))
                return tools
            params = {"cursor": page["nextCursor"]}
        raise McpFailed("bad_answer", f"The server's list of tools has more than {MAX_PAGES} pages.")

    def call_tool(
        self,
        name: str,
        arguments: dict[str, JSON],
        until: float,
        *,
        schema: JSON = None,
        listener: Listener = NOBODY,
        more: dict[str, JSON] | None = None,
    ) -> dict[str, JSON]:
        """The result of a call. `more` continues a call of the newest version: inputResponses, requestState.

        Raises InputRequired, McpRefused, McpFailed.
        """
        params = {"name": name, "arguments": arguments, **(more or {})}
        headers = metadata.of_arguments(schema, arguments) if self.era == MODERN else {}
        try:
            result = self.request("tools/call", params, until, headers=headers, listener=listener)
        except McpRefused as error:
            elicitations = error.data.get("elicitations") if error.code == URL_REQUIRED else None
            if not isinstance(elicitations, list) or listener is NOBODY:
                raise
            requests = {
                str(n): {"method": "elicitation/create", "params": one} for n, one in enumerate(elicitations[:5])
            }
            raise InputRequired(requests, None)
        return settled(result)

    def resume_call(self, state: dict[str, JSON], answers: dict[str, JSON], until: float, listener: Listener) -> JSON:
        """Continue a call of an earlier version whose stream was left: answer, and read the rest.

        Raises InputRequired, McpRefused, McpFailed.
        """
        transport = self.transport
        assert isinstance(transport, HttpTransport)
        stream = Left(state["session_id"], state["version"], Position(event_id=state["event_id"]))
        transport.attach(stream)
        try:
            for identity, result in answers.items():
                self.send({"jsonrpc": "2.0", "id": state["asked"].get(identity, identity), "result": result}, until)
        except SessionLost:
            raise McpFailed("session_lost", "The server closed the session while the person was asked.")
        return settled(self._answer(state["request"], transport.resumed(stream, until), until, listener))

    def request(
        self,
        method: str,
        params: dict[str, JSON],
        until: float,
        *,
        headers: dict[str, str] | None = None,
        listener: Listener = NOBODY,
    ) -> dict[str, JSON]:
        """The result of one request. Raises InputRequired, McpRefused, McpFailed."""
        identity = next(self._ids)
        meta: dict[str, JSON] = {} if listener is NOBODY else {"progressToken": identity}
        if self.era == MODERN:
            meta |= described(MODERN)
        message = request(identity, method, {**params, **({"_meta": meta} if meta else {})})
        exchange = self.transport.exchange(message, until, headers or {})
        try:
            return self._answer(identity, exchange, until, listener)
        except McpFailed as error:
            if error.code in ("timeout", "cancelled"):
                self._cancel(identity, error.code)
            raise

    def _answer(self, identity: JSON, exchange: Exchange, until: float, listener: Listener) -> dict[str, JSON]:
        for came in exchange:
            if is_answer(came, identity):
                return result_of(came)
            try:
                self._attend(came, identity, exchange, until, listener)
            except SessionLost as error:
                raise McpFailed(error.code, str(error))  # the call itself had been received
        raise McpFailed("server_died", "The server ended the conversation without an answer.")

    def _attend(self, came: Message, identity: JSON, exchange: Exchange, until: float, listener: Listener) -> None:
        """Notifications and requests that arrive before the answer."""
        method, params = came.get("method"), came.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "notifications/tools/list_changed":
            self.tools_changed = True
        elif method == "notifications/progress" and params.get("progressToken") == identity:
            listener.on_progress(params)
        elif method == "notifications/message":
            listener.on_log(params)
        if "id" not in came or "method" not in came or self.era == MODERN:
            return
        if method == "elicitation/create":
            self._elicited(came, params, identity, exchange, until, listener)
        else:
            self.send({"jsonrpc": "2.0", "id": came["id"], **reply_to(method)}, until)

    def _elicited(
        self,
        came: Message,
        params: dict[str, JSON],
        identity: JSON,
        exchange: Exchange,
        until: float,
        listener: Listener,
    ) -> None:
        """Answer at once, or leave the stream where it can be continued once a person has answered."""
        result = listener.answer(params)
        stream = exchange.left() if result is None else None
        if result is None and stream is None and not listener.may_repeat:
            result = {"action": "cancel"}  # nobody could go on with this call after a wait
        if result is not None:
            self.send({"jsonrpc": "2.0", "id": came["id"], "result": result}, until)
            return
        key = str(came["id"])
        requests = {key: {"method": "elicitation/create", "params": params}}
        if stream is None:
            self._cancel(identity, "a person must be asked first")
            raise InputRequired(requests, None)
        raise InputRequired(requests, parked(stream, identity, {key: came["id"]}))

    def _cancel(self, identity: JSON, reason: str) -> None:
        """Tell the server, as far as the transport does not by itself; a server that is gone needs no word."""
        if self.era == MODERN and self.transport.cancels_by_closing:
            return
        try:
            message = notification("notifications/cancelled", {"requestId": identity, "reason": reason})
            self.transport.send(message, monotonic() + 1.0)
        except (McpFailed, McpRefused):
            pass

    def send(self, message: Message, until: float) -> None:
        self.transport.send(message, until)

    def close(self) -> None:
        self.transport.close()


# -- opening ---------------------------------------------------------------------------------------------------------


def opened(make: Callable[[], Transport], until: float, era: str = "") -> Session:
    """A session in the era that the server speaks; `era` is the one it spoke before. Raises McpFailed, McpRefused."""
    session = Session(make(), MODERN)
    try:
        if era == LEGACY or not is_modern(session, until):
            session.era, session.transport.version = LEGACY, ""
            initialize(session, make, until)
    except BaseException:
        session.close()
        raise
    return session


def is_modern(session: Session, until: float) -> bool:
    """Asks for the newest version; a server that does not know the question speaks an earlier one."""
    session.transport.version = MODERN
    try:
        answer = session.request("server/discover", {}, min(until, monotonic() + PROBE_S))
    except McpRefused as error:
        if error.code not in MODERN_ERRORS:
            return False
        if error.code != VERSION_REFUSED:
            raise
        return chosen(error.data.get("supported"))
    except McpFailed as error:
        if error.code not in NO_ANSWER or monotonic() >= until:
            raise
        return False
    meta = answer.get("_meta")
    session.server = (meta.get(f"{PREFIX}/serverInfo") if isinstance(meta, dict) else None) or {}
    return chosen(answer.get("supportedVersions"))


def chosen(supported: JSON) -> bool:
    """Whether the newest of the server's versions that Muster speaks is the modern one."""
    versions = set(map(str, supported)) if isinstance(supported, list) else set()
    if MODERN in versions:
        return True
    if versions and not versions & LEGACY_VERSIONS:
        raise unsupported(", ".join(sorted(versions)))
    return False


def initialize(session: Session, make: Callable[[], Transport], until: float) -> None:
    if not session.transport.is_open:  # a program may end when it is asked what it does not know
        session.close()
        session.transport = make()
    answer = session.request("initialize", INITIALIZE, until)
    version = answer.get("protocolVersion")
    if version not in LEGACY_VERSIONS:
        raise unsupported(str(version))
    session.server = answer.get("serverInfo") or {}
    session.transport.version = version
    session.send(notification("notifications/initialized"), until)


def unsupported(versions: str) -> McpFailed:
    message = f"The server speaks no version of MCP that Muster speaks: {versions[:200]}."
    return McpFailed("unsupported_version", message, was_sent=False)


# -- parts of messages -----------------------------------------------------------------------------------------------


def described(version: str) -> dict[str, JSON]:
    """What each request of the newest version says about the client."""
    return {
        f"{PREFIX}/protocolVersion": version,
        f"{PREFIX}/clientInfo": CLIENT,
        f"{PREFIX}/clientCapabilities": CAPABILITIES,
    }


def settled(result: dict[str, JSON]) -> dict[str, JSON]:
    """The final result. Raises InputRequired where the server asks first."""
    if result.get("resultType") != "input_required":
        return result
    requests, state = result.get("inputRequests") or {}, result.get("requestState")
    if not isinstance(requests, dict) or not (requests or isinstance(state, str)):
        raise McpFailed("bad_answer", "The server requires input and does not say which.")
    raise InputRequired(requests, {"more": {"requestState": state} if isinstance(state, str) else {}})


def parked(stream: Left, identity: JSON, requests: dict[str, JSON]) -> dict[str, JSON]:
    """Where a call of an earlier version was left, as JSON."""
    values: dict[str, Any] = asdict(stream)
    event_id = values.pop("position")["event_id"]
    return {**values, "event_id": event_id, "request": identity, "asked": requests}


def reply_to(method: JSON) -> dict[str, JSON]:
    """Our answer to a server's own request. Muster shows servers no folders and runs no models for them."""
    if method == "ping":
        return {"result": {}}
    if method == "roots/list":
        return {"result": {"roots": []}}
    if method == "sampling/createMessage":
        return {"error": {"code": METHOD_MISSING, "message": "Muster does not run models for servers (sampling)."}}
    return {"error": {"code": METHOD_MISSING, "message": "This client does not do that."}}


def seconds_of(milliseconds: JSON) -> float | None:
    is_number = isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool)
    return max(0.0, milliseconds / 1000) if is_number else None
