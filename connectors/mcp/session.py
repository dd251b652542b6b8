"""A conversation with an MCP server, over any transport, in both eras of the protocol.

2026-07-28: every request carries version and capabilities, and the server asks for input by its
result. Earlier versions: `initialize` opens a session, and the server sends requests of its own.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from plumbing import waits
from plumbing.http import outbound
from plumbing.waits import never

from . import headers as metadata
from .exceptions import InputRequired, McpFailed, McpRefused, SessionLost
from .http import HttpTransport, pause_for_server
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
    get_rpc_result,
    is_answer,
    notification,
    request,
)
from .server_stream import ServerStreamReader
from .sse import Position

# How long a server may take to show that it knows the newest version.
PROBE_S = 10.0
# How long a question waits for the event from which its call can be continued.
FIRST_EVENT_S = 1.0
MAX_PAGES = 50
METHOD_MISSING = -32601
VERSION_REFUSED = -32022
MODERN_ERRORS = frozenset([-32020, -32021, VERSION_REFUSED])
# An earlier version's way to ask for a visit to a page before the call.
URL_REQUIRED = -32042
NO_ANSWER = frozenset(["server_refused", "bad_answer", "server_died", "timeout"])
PREFIX = "io.modelcontextprotocol"
# Between two looks at a task.
FIRST_POLL_S, LEAST_POLL_S, MOST_POLL_S = 1.0, 0.1, 10.0


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


@dataclass(slots=True, eq=False)
class Open:
    """A request whose answer has not come. `stopped_by` is what was asked outside of its stream."""

    identity: JSON
    exchange: Exchange
    listener: Listener
    stopped_by: InputRequired | None = None


@dataclass(slots=True)
class Session:
    """`until` is a moment of time.monotonic(). Threads may share a session whose transport allows it."""

    transport: Transport
    era: str
    server: dict[str, JSON] = field(default_factory=dict)
    capabilities: dict[str, JSON] = field(default_factory=dict)
    tools_changed: bool = False
    # How long the server says that its list of tools stays fresh.
    list_ttl_s: float | None = None
    stream_reader: ServerStreamReader | None = None
    # Calls in progress that can ask a person, the newest last.
    _open: list[Open] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def takes_tasks(self) -> bool:
        """Whether the server can make a call as a task (2025-11-25)."""
        if self.era != LEGACY:
            return False
        capability: JSON = self.capabilities
        for name in ("tasks", "requests", "tools", "call"):
            if not isinstance(capability, dict):
                return False
            capability = capability.get(name)
        return capability is not None

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
                self.list_ttl_s = convert_milliseconds(page.get("ttlMs"))
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
        as_task: bool = False,
    ) -> dict[str, JSON]:
        """The result of a call. `more` continues a call of the newest version: inputResponses, requestState.

        Raises InputRequired, McpRefused, McpFailed.
        """
        params = {"name": name, "arguments": arguments, **(more or {})}
        if as_task:
            return self._call_as_task(params, until, listener)
        headers: dict[str, str] = {}
        if self.era == MODERN:
            headers = metadata.of_arguments(schema, arguments)
        return self.call("tools/call", params, until, headers=headers, listener=listener)

    def call(
        self,
        method: str,
        params: dict[str, JSON],
        until: float,
        *,
        headers: dict[str, str] | None = None,
        listener: Listener = NOBODY,
    ) -> dict[str, JSON]:
        """The result of a request in which the server may ask first. Raises InputRequired, McpRefused, McpFailed."""
        try:
            result = self.request(method, params, until, headers=headers, listener=listener)
        except McpRefused as error:
            elicitations = error.data.get("elicitations")
            asks_person = error.code == URL_REQUIRED and isinstance(elicitations, list)
            if not asks_person or listener is NOBODY:
                raise
            requests: dict[str, JSON] = {}
            for number, params in enumerate(elicitations[:5]):
                requests[str(number)] = {"method": "elicitation/create", "params": params}
            raise InputRequired(requests, None)
        return get_final_result(result)

    def _call_as_task(self, params: dict[str, JSON], until: float, listener: Listener) -> dict[str, JSON]:
        """The result of a task of the server (2025-11-25), once it has one."""
        ttl_ms = int(max(0.0, until - monotonic()) * 1000)
        created = self.call("tools/call", {**params, "task": {"ttl": ttl_ms}}, until, listener=listener)
        task = created.get("task")
        if not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
            # Some servers answer at once.
            return created
        identity = {"taskId": task["taskId"]}
        try:
            while task.get("status") == "working":
                pause_for_server(poll_seconds(task), until)
                task = self.request("tasks/get", identity, until)
            if task.get("status") == "cancelled":
                raise McpRefused({"message": str(task.get("statusMessage") or "The server cancelled the task.")})
            return self.call("tasks/result", identity, until, listener=listener)
        except SessionLost as error:
            # The call itself had been received: a new session must not make it again.
            raise McpFailed(error.code, str(error))
        except McpFailed as error:
            if error.code in ("timeout", "cancelled"):
                self._cancel_task(identity)
            raise
        except InputRequired as question:
            # Without a state the call will be made anew.
            if question.state is None:
                self._cancel_task(identity)
            raise

    def _cancel_task(self, identity: dict[str, JSON]) -> None:
        """Tell the server; one that is gone needs no word."""
        try:
            with outbound.unless(never):
                self.request("tasks/cancel", identity, monotonic() + 1.0)
        except (McpFailed, McpRefused):
            pass

    def resume_call(self, state: dict[str, JSON], answers: dict[str, JSON], until: float, listener: Listener) -> JSON:
        """Continue a call of an earlier version whose stream was left: answer, and read the rest.

        Raises InputRequired, McpRefused, McpFailed.
        """
        transport = self.transport
        assert isinstance(transport, HttpTransport)
        stream = Left(state["session_id"], state["version"], Position(event_id=state["event_id"]))
        transport.attach(stream)
        self._listen(until)
        try:
            for key, result in answers.items():
                # Keys are texts; the server may have asked with a number.
                identity = state["asked"].get(key, key)
                self.send({"jsonrpc": "2.0", "id": identity, "result": result}, until)
        except SessionLost:
            raise McpFailed("session_lost", "The server closed the session while the person was asked.")
        going_on = Open(state["request"], transport.resumed(stream, until), listener)
        return get_final_result(self._answer(going_on, until))

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
        meta: dict[str, JSON] = {}
        if listener is not NOBODY:
            meta["progressToken"] = identity
        if self.era == MODERN:
            meta |= build_client_meta(MODERN)
        if meta:
            params = {**params, "_meta": meta}
        message = request(identity, method, params)
        if listener is not NOBODY:
            self._listen(until)
        exchange = self.transport.exchange(message, until, headers or {})
        begun = Open(identity, exchange, listener)
        try:
            return self._answer(begun, until)
        except McpFailed as error:
            if error.code in ("timeout", "cancelled"):
                self._cancel(identity, error.code)
            raise

    def _answer(self, begun: Open, until: float) -> dict[str, JSON]:
        """Raises what was asked outside of the answer's stream, and the answer's own failures."""
        if begun.listener is NOBODY:
            return self._read_answer(begun, until)
        is_cancelled = outbound.asked_whether_cancelled() or never
        self._open.append(begun)
        try:
            with outbound.unless(lambda: begun.stopped_by is not None or is_cancelled()):
                return self._read_answer(begun, until)
        except McpFailed as error:
            if begun.stopped_by is None or error.code != "cancelled":
                raise
            if begun.stopped_by.state is None:
                self._cancel(begun.identity, "a person must be asked first")
            raise begun.stopped_by
        finally:
            self._open.remove(begun)

    def _read_answer(self, begun: Open, until: float) -> dict[str, JSON]:
        for came in begun.exchange:
            if is_answer(came, begun.identity):
                return get_rpc_result(came)
            try:
                self._attend(came, begun, until)
            except SessionLost as error:
                # The call itself had been received: a new session must not make it again.
                raise McpFailed(error.code, str(error))
        raise McpFailed("server_died", "The server ended the conversation without an answer.")

    def _attend(self, came: Message, begun: Open, until: float) -> None:
        """Notifications and requests that arrive before the answer."""
        method = came.get("method")
        params = get_params(came)
        if method == "notifications/tools/list_changed":
            self.tools_changed = True
        elif method == "notifications/progress" and params.get("progressToken") == begun.identity:
            begun.listener.on_progress(params)
        elif method == "notifications/message":
            begun.listener.on_log(params)
        if "id" not in came or "method" not in came or self.era == MODERN:
            return
        if method != "elicitation/create":
            self.send({"jsonrpc": "2.0", "id": came["id"], **build_server_reply(method)}, until)
            return
        result, question = find_answer(came, begun)
        if result is not None:
            self.send({"jsonrpc": "2.0", "id": came["id"], "result": result}, until)
        if question is None:
            return
        if question.state is None:
            self._cancel(begun.identity, "a person must be asked first")
        raise question

    def _listen(self, until: float) -> None:
        """Read also what the server sends outside of its answers, from the first call that may ask a person on."""
        if self.stream_reader is not None or self.era != LEGACY:
            return
        if not isinstance(self.transport, HttpTransport):
            return
        self.stream_reader = ServerStreamReader(self.transport, self._answer_outside)
        try:
            self.stream_reader.open(until)
        except McpFailed:
            # The run was cancelled meanwhile: the next call opens it.
            self.stream_reader = None
            raise

    def _answer_outside(self, came: Message) -> Message | None:
        """The reply to a message outside of any answer, on the reader's thread. A question is the newest call's."""
        method = came.get("method")
        newest = self._open[-1] if self._open else None
        if method == "notifications/tools/list_changed":
            self.tools_changed = True
        elif method == "notifications/message" and newest is not None:
            newest.listener.on_log(get_params(came))
        if "id" not in came or "method" not in came:
            return None
        if method != "elicitation/create":
            return {"jsonrpc": "2.0", "id": came["id"], **build_server_reply(method)}
        result: JSON = {"action": "cancel"}
        if newest is not None and newest.stopped_by is None:
            wait_for_first_event(newest)
            result, newest.stopped_by = find_answer(came, newest)
        if result is None:
            return None
        return {"jsonrpc": "2.0", "id": came["id"], "result": result}

    def stop_listening(self) -> None:
        if self.stream_reader is not None:
            self.stream_reader.stop()

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
        self.stop_listening()
        self.transport.close()


# -- opening ---------------------------------------------------------------------------------------------------------


def open_server_session(make: Callable[[], Transport], until: float, era: str = "") -> Session:
    """A session in the era that the server speaks; `era` is the one it spoke before. Raises McpFailed, McpRefused."""
    session = Session(make(), MODERN)
    try:
        if era == LEGACY or not is_modern(session, until):
            session.era = LEGACY
            session.transport.version = ""
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
        return has_modern_version(error.data.get("supported"))
    except McpFailed as error:
        if error.code not in NO_ANSWER or monotonic() >= until:
            raise
        return False
    meta = answer.get("_meta")
    if isinstance(meta, dict):
        session.server = meta.get(f"{PREFIX}/serverInfo") or {}
    session.capabilities = get_capabilities(answer)
    return has_modern_version(answer.get("supportedVersions"))


def has_modern_version(supported: JSON) -> bool:
    """Whether the newest of the server's versions that Muster speaks is the modern one."""
    versions: set[str] = set()
    if isinstance(supported, list):
        versions = set(map(str, supported))
    if MODERN in versions:
        return True
    if versions and not versions & LEGACY_VERSIONS:
        raise refuse_server_versions(", ".join(sorted(versions)))
    return False


def initialize(session: Session, make: Callable[[], Transport], until: float) -> None:
    # A program may end when it is asked what it does not know.
    if not session.transport.is_open:
        session.close()
        session.transport = make()
    answer = session.request("initialize", INITIALIZE, until)
    version = answer.get("protocolVersion")
    if version not in LEGACY_VERSIONS:
        raise refuse_server_versions(str(version))
    session.server = answer.get("serverInfo") or {}
    session.capabilities = get_capabilities(answer)
    session.transport.version = version
    session.send(notification("notifications/initialized"), until)


def refuse_server_versions(versions: str) -> McpFailed:
    message = f"The server speaks no version of MCP that Muster speaks: {versions[:200]}."
    return McpFailed("unsupported_version", message, was_sent=False)


# -- parts of messages -----------------------------------------------------------------------------------------------


def build_client_meta(version: str) -> dict[str, JSON]:
    """What each request of the newest version says about the client."""
    return {
        f"{PREFIX}/protocolVersion": version,
        f"{PREFIX}/clientInfo": CLIENT,
        f"{PREFIX}/clientCapabilities": CAPABILITIES,
    }


def get_final_result(result: dict[str, JSON]) -> dict[str, JSON]:
    """The final result. Raises InputRequired where the server asks first."""
    if result.get("resultType") != "input_required":
        return result
    requests = result.get("inputRequests") or {}
    state = result.get("requestState")
    is_asking = bool(requests) or isinstance(state, str)
    if not isinstance(requests, dict) or not is_asking:
        raise McpFailed("bad_answer", "The server requires input and does not say which.")
    more: dict[str, JSON] = {}
    if isinstance(state, str):
        more["requestState"] = state
    raise InputRequired(requests, {"more": more})


def serialize_left_stream(stream: Left, identity: JSON, requests: dict[str, JSON]) -> dict[str, JSON]:
    """Where a call of an earlier version was left, as JSON."""
    return {
        "session_id": stream.session_id,
        "version": stream.version,
        "event_id": stream.position.event_id,
        "request": identity,
        "asked": requests,
    }


def find_answer(came: Message, begun: Open) -> tuple[JSON, InputRequired | None]:
    """The result for a question of the server that came during this request, or what a person must be asked first.

    The request's stream is left where it can be continued once the person has answered.
    """
    params = get_params(came)
    result = begun.listener.answer(params)
    if result is not None:
        return result, None
    stream = begun.exchange.left()
    if stream is None and not begun.listener.may_repeat:
        # Nobody could go on with this call after a wait.
        return {"action": "cancel"}, None
    key = str(came["id"])
    state = None
    if stream is not None:
        state = serialize_left_stream(stream, begun.identity, {key: came["id"]})
    question = {"method": "elicitation/create", "params": params}
    return None, InputRequired({key: question}, state)


def wait_for_first_event(begun: Open) -> None:
    """A question on another connection may overtake the event from which the call's own stream can be continued."""
    waits.sleep_until(FIRST_EVENT_S, lambda: begun.exchange.left() is not None)


def get_params(message: Message) -> dict[str, JSON]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def get_capabilities(answer: dict[str, JSON]) -> dict[str, JSON]:
    capabilities = answer.get("capabilities")
    return capabilities if isinstance(capabilities, dict) else {}


def poll_seconds(task: dict[str, JSON]) -> float:
    """How long the server asks to wait before the next look at a task."""
    interval_s = convert_milliseconds(task.get("pollInterval"))
    if interval_s is None:
        return FIRST_POLL_S
    return min(max(interval_s, LEAST_POLL_S), MOST_POLL_S)


def build_server_reply(method: JSON) -> dict[str, JSON]:
    """Our answer to a server's own request. Muster shows servers no folders and runs no models for them."""
    if method == "ping":
        return {"result": {}}
    if method == "roots/list":
        return {"result": {"roots": []}}
    if method == "sampling/createMessage":
        return {"error": {"code": METHOD_MISSING, "message": "Muster does not run models for servers (sampling)."}}
    return {"error": {"code": METHOD_MISSING, "message": "This client does not do that."}}


def convert_milliseconds(milliseconds: JSON) -> float | None:
    """The number in seconds; None if it is no number."""
    is_number = isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool)
    if not is_number:
        return None
    return max(0.0, milliseconds / 1000)
