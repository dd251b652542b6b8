"""MCP servers as sources of tools: sessions opened on demand, pins checked before each call,
results typed and cut.
"""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from django.conf import settings

from agents.exceptions import Invalid
from agents.models import Tool
from agents.models.team import is_open
from agents.schema import sha256_of
from agents.tools import OutcomeUnknown, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec
from connectors.content import clean, cut
from connectors.exceptions import ReconnectNeeded, failed
from connectors.logins import tokens
from connectors.mcp.client import (
    HttpTransport,
    LoginWanted,
    McpFailed,
    McpRefused,
    Session,
    SessionLost,
    Transport,
    host_of,
)
from connectors.mcp.programs import ProgramTransport, command_refusal
from connectors.models import Connection, RemoteTool
from connectors.remote import Listing, Offered, secret_header, take_offers
from connectors.timing import seconds_left

LISTED_S = 60.0  # how long a list of tools is used before it is read again
IDLE_S = 600.0
KEPT = 64
LIST_S = 20.0
TEXT_LIMIT = 200_000
JSON = Any


@dataclass(slots=True)
class Kept:
    """An open session and its last list of tools. A program takes one call at a time, an HTTP
    server several.
    """

    session: Session
    is_shared: bool
    lock: threading.Lock = field(default_factory=threading.Lock)
    hashes: dict[str, str] = field(default_factory=dict)
    listed_at: float = 0.0
    used_at: float = field(default_factory=monotonic)

    @contextmanager
    def turn(self, until: float) -> Iterator[Session]:
        if self.is_shared:
            yield self.session
            return
        if not self.lock.acquire(timeout=max(0.0, until - monotonic())):
            raise McpFailed("busy", "The program is busy with another call.", was_sent=False)
        try:
            yield self.session
        finally:
            self.lock.release()


_kept: dict[tuple[int, int, str], Kept] = {}
_guard = threading.Lock()


# -- the catalogue -------------------------------------------------------------------------------------------------


def list_tools(connection: Connection, user_id: int | None) -> Listing:
    """Read the server's tools and update the catalogue. Raises ToolFailed."""
    until = monotonic() + LIST_S
    kept, key = opened(connection, user_id, until)
    try:
        with kept.turn(until):
            offers = listed(kept, until)
    except (McpFailed, McpRefused) as error:
        drop(key)
        raise unusable(connection, error)
    connection.mark_ok()
    return take_offers(connection, offers, kind=Tool.Kind.MCP)


def listed(kept: Kept, until: float) -> list[Offered]:
    offers = [offered(tool) for tool in kept.session.list_tools(until)]
    kept.hashes = {one.name: sha256_of(one.definition()) for one in offers}
    kept.listed_at = monotonic()
    return offers


def offered(tool: dict[str, JSON]) -> Offered:
    """One entry of tools/list. Its annotations are claims that only count after approval."""
    schema, output = tool.get("inputSchema"), tool.get("outputSchema")
    return Offered(
        name=str(tool.get("name", "")),
        description=clean(str(tool.get("description") or tool.get("title") or "")),
        input_schema=schema if isinstance(schema, dict) else {"type": "object"},
        output_schema=output if isinstance(output, dict) else None,
        effect=claimed_effect(tool.get("annotations")),
        details={},
    )


def claimed_effect(annotations: JSON) -> str:
    hints = annotations if isinstance(annotations, dict) else {}
    if hints.get("readOnlyHint") is True:
        return Tool.Effect.READ_OUT  # its arguments go to somebody else's server
    if hints.get("destructiveHint", True) is not False:
        return Tool.Effect.DESTRUCTIVE
    return Tool.Effect.IDEMPOTENT if hints.get("idempotentHint") is True else Tool.Effect.WRITE


# -- a call --------------------------------------------------------------------------------------------------------


class McpToolset:
    """Executes tools of kind mcp."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        connection, remote = source_of(tool, context.user_id)
        until = monotonic() + seconds_left(tool, context)
        started, error = monotonic(), ""
        try:
            answer = self.answer(tool, call, connection, context.user_id, until)
        except Exception as problem:
            error = str(problem) or type(problem).__name__
            raise
        finally:
            remote.count((monotonic() - started) * 1000, error)
        connection.mark_ok()
        return result_of(answer)

    def answer(
        self, tool: ToolSpec, call: ToolCall, connection: Connection, user_id: int, until: float
    ) -> dict[str, JSON]:
        """If the server has closed the session, it is opened again once; any other failure ends the
        call and the session.
        """
        for is_last in (False, True):
            kept, key = opened(connection, user_id, until)
            try:
                with kept.turn(until) as session:
                    self.check_pin(tool, connection, kept, until)
                    return self.make(session, tool, call, until)
            except SessionLost as error:
                drop(key)
                if is_last:
                    raise unusable(connection, error)
            except McpFailed as error:
                drop(key)
                raise unusable(connection, error)
            except McpRefused as error:
                raise failed("tool_refused", f"The server refused the call: {error}")
        raise AssertionError("unreachable")

    def check_pin(self, tool: ToolSpec, connection: Connection, kept: Kept, until: float) -> None:
        """The tool still matches its pin; otherwise it is switched off until a user approves it
        again.
        """
        if not kept.listed_at or kept.session.tools_changed or monotonic() - kept.listed_at > LISTED_S:
            offers = listed(kept, until)
            if kept.hashes.get(tool.source["tool"]) != tool.source["pin"]:
                take_offers(connection, offers, kind=Tool.Kind.MCP)
        now = kept.hashes.get(tool.source["tool"])
        if now is None:
            raise failed("not_offered", f"The server no longer offers “{tool.source['tool']}”.")
        if now != tool.source["pin"]:
            raise failed(
                "definition_changed",
                f"The server has changed “{tool.source['tool']}”; a user must approve it again.",
                offered=now,
            )

    def make(self, session: Session, tool: ToolSpec, call: ToolCall, until: float) -> dict[str, JSON]:
        try:
            return session.call_tool(tool.source["tool"], call.arguments, until)
        except SessionLost:
            raise
        except McpFailed as error:
            if error.was_sent and not tool.is_repeatable:
                raise McpFailed("outcome_unknown", f"{error} It is unknown whether the call was carried out.")
            raise


def source_of(tool: ToolSpec, user_id: int) -> tuple[Connection, RemoteTool]:
    """The connection of a tool, if this user may use it. Raises ToolFailed."""
    connection = Connection.objects.filter(pk=tool.source.get("connection"), enabled=True).first()
    if connection is None or not may_use(connection, user_id):
        raise failed("connection_missing", f"You have no connection for “{tool.name}”.")
    remote = connection.remote_tools.filter(remote_name=tool.source.get("tool")).first()
    if remote is None:
        raise failed("not_offered", f"“{tool.name}” is no longer offered.")
    return connection, remote


def may_use(connection: Connection, user_id: int) -> bool:
    return is_open(connection.owner_id, connection.team_id, user_id)


def unusable(connection: Connection, error: McpFailed | McpRefused) -> ToolFailed | OutcomeUnknown:
    """The error for the runner; it is also recorded in the connection's health."""
    message = f"{connection.name}: {error}"
    if isinstance(error, McpRefused):
        return failed("tool_refused", message)
    if isinstance(error, LoginWanted):
        connection.want_login(error.scopes)
        return ReconnectNeeded(connection, str(error))
    connection.mark_broken(str(error))
    if error.code == OutcomeUnknown.code:
        return OutcomeUnknown(message)
    return failed(error.code, message)


def result_of(answer: dict[str, JSON]) -> ToolResult:
    """The server's answer as untrusted content; long text is cut and marked."""
    value = answer.get("structuredContent")
    text = "\n".join(filter(None, map(text_of, answer.get("content") or [])))
    shown = cut(text, TEXT_LIMIT)[0]
    if answer.get("isError"):
        return ToolResult(
            ok=False, error={"code": "tool_error", "message": shown[:4000] or "the tool failed"}, untrusted=True
        )
    return ToolResult(ok=True, value=value if value is not None else shown, untrusted=True)


def text_of(part: JSON) -> str:
    """A content part as text; other parts are named but not included."""
    if not isinstance(part, dict):
        return ""
    if part.get("type") == "text":
        return clean(str(part.get("text", "")))
    resource = part.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return clean(resource["text"])
    kind = part.get("mimeType") or (resource or part).get("mimeType") or part.get("type", "content")
    return f"[left out: {kind}]"


# -- sessions ------------------------------------------------------------------------------------------------------


def opened(connection: Connection, user_id: int | None, until: float) -> tuple[Kept, tuple[int, int, str]]:
    """The open session of this connection (for this user's secret), else a new one. Raises
    ToolFailed.
    """
    headers = headers_of(connection, user_id)
    identity = [connection.base_url, connection.config, headers, connection.token_version]
    key = (os.getpid(), connection.pk, sha256_of(identity))
    with _guard:
        close_idle()
        if kept := _kept.get(key):
            kept.used_at = monotonic()
            return kept, key
    try:
        made = Kept(Session(transport(connection, headers), until), is_shared=bool(connection.base_url))
    except (McpFailed, McpRefused) as error:
        raise unusable(connection, error)
    with _guard:
        kept = _kept.setdefault(key, made)
    if kept is not made:
        made.session.close()
    return kept, key


def headers_of(connection: Connection, user_id: int | None) -> dict[str, str]:
    """The headers with the user's secret. A login uses a token instead. Raises ToolFailed."""
    if connection.uses_oauth or connection.config.get("client_id"):
        return {}
    try:
        return secret_header(connection, user_id, host_of(connection.base_url))
    except Invalid as error:
        raise failed(error.code, f"{error} {error.hint}".strip())


def transport(connection: Connection, headers: dict[str, str]) -> Transport:
    if connection.base_url:
        bearer = partial(token_for, connection.pk) if connection.uses_oauth else None
        return HttpTransport(connection.base_url, headers, settings.PRIVATE_HOSTS_ALLOWED, bearer)
    command = connection.config.get("command")
    if refusal := command_refusal(command, settings.MCP_COMMANDS):
        raise McpFailed("command_refused", refusal, was_sent=False)
    return ProgramTransport(command)


def token_for(connection_id: int, refused: str) -> str:
    """The current token of the login: a session outlives many tokens. Raises ReconnectNeeded,
    ToolFailed.
    """
    connection = Connection.objects.filter(pk=connection_id).first()
    if connection is None:
        raise failed("connection_missing", "This connection was deleted.")
    if not connection.is_linked:
        raise ReconnectNeeded(connection, "The server requires a login.")
    return tokens.access_token(connection, refused=refused)


def drop(key: tuple[int, int, str]) -> None:
    with _guard:
        kept = _kept.pop(key, None)
    if kept is not None:
        kept.session.close()


def drop_all(connection: Connection) -> None:
    """Close this process's sessions of a connection that was changed or deleted."""
    for key in [key for key in list(_kept) if key[1] == connection.pk]:
        drop(key)


def close_idle() -> None:
    """Called under the lock. Sessions in use were touched recently."""
    now = monotonic()
    oldest = sorted(_kept, key=lambda key: _kept[key].used_at)
    surplus = set(oldest[: max(0, len(_kept) - KEPT)])
    for key in oldest:
        if key in surplus or now - _kept[key].used_at > IDLE_S:
            _kept.pop(key).session.close()


@atexit.register
def close_all() -> None:
    for key in [key for key in list(_kept) if key[0] == os.getpid()]:
        drop(key)
