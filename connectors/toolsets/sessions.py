"""Open sessions with MCP servers: made when needed, shared by the calls of one process, closed when idle."""

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from django.conf import settings

from agents.exceptions import Invalid
from agents.schema import hash_json
from agents.tools import OutcomeUnknown, ToolFailed
from connectors.exceptions import ReconnectNeeded, build_tool_failure
from connectors.logins import tokens
from connectors.mcp import session as sessions
from connectors.mcp.exceptions import LoginWanted, McpFailed, McpRefused, SessionLost
from connectors.mcp.http import HttpTransport
from connectors.mcp.messages import LEGACY, Transport, get_url_host
from connectors.mcp.programs import ProgramTransport, command_refusal
from connectors.mcp.session import Session
from connectors.models import Connection
from connectors.remote import secret_header
from plumbing import waits

IDLE_S = 600.0
KEPT = 64
# Servers whose version of the protocol is remembered.
ERAS = 1024
# Failures that say nothing about the session.
STILL_GOOD = frozenset(["cancelled", "private_address", "busy"])
# Process, connection, and a hash of who uses it and how.
Key = tuple[int, int, str]
Result = TypeVar("Result")


@dataclass(slots=True)
class Kept:
    """An open session and its last list of tools. A program takes one call at a time, an HTTP
    server several.
    """

    session: Session
    is_shared: bool
    lock: threading.Lock = field(default_factory=threading.Lock)
    hashes: dict[str, str] = field(default_factory=dict)
    # Which lists of resources and prompts have rows.
    found: dict[str, bool] = field(default_factory=dict)
    listed_at: float = 0.0
    used_at: float = field(default_factory=monotonic)
    users: int = 0
    is_dropped: bool = False

    @contextmanager
    def turn(self, until: float) -> Iterator[None]:
        if self.is_shared:
            yield
            return
        if not waits.acquire(self.lock, max(0.0, until - monotonic())):
            raise McpFailed("busy", "The program is busy with another call.", was_sent=False)
        try:
            yield
        finally:
            self.lock.release()


_kept: dict[Key, Kept] = {}
_eras: dict[str, str] = {}
_guard = threading.Lock()


def use(connection: Connection, user_id: int | None, until: float, work: Callable[[Kept], Result]) -> Result:
    """What `work` returns. If the server has forgotten the session, once more with a new one.

    `work` may raise SessionLost only if nothing that it asked for was done. Raises ToolFailed,
    OutcomeUnknown, and McpRefused as it came.
    """
    for is_last in (False, True):
        with open_kept_session(connection, user_id, until) as (kept, key):
            try:
                with kept.turn(until):
                    return work(kept)
            except SessionLost as error:
                drop(key)
                if is_last:
                    raise unusable(connection, error)
            except McpFailed as error:
                if error.code not in STILL_GOOD and not (error.code == "timeout" and kept.is_shared):
                    drop(key)
                raise unusable(connection, error)
    raise AssertionError("unreachable")


@contextmanager
def open_kept_session(connection: Connection, user_id: int | None, until: float) -> Iterator[tuple[Kept, Key]]:
    """The open session of this person with this connection, else a new one: what a server keeps in a session is of
    the person who used it. It is not closed while it is in use. Raises ToolFailed.
    """
    headers = build_secret_headers(connection, user_id)
    identity = [user_id, connection.base_url, connection.config, headers, connection.token_version]
    key = (os.getpid(), connection.pk, hash_json(identity))
    with _guard:
        over = idle_ones()
        kept = _kept.get(key)
        if kept:
            begin_use(kept)
    for session in over:
        session.close()
    if kept is None:
        kept = create_kept_session(connection, headers, key, until)
    try:
        yield kept, key
    finally:
        end_use(kept)


def create_kept_session(connection: Connection, headers: dict[str, str], key: Key, until: float) -> Kept:
    place = connection.base_url or hash_json(connection.config.get("command"))
    try:
        session = open_era_session(partial(transport, connection, headers), until, _eras.pop(place, ""))
    except (McpFailed, McpRefused) as error:
        raise unusable(connection, error)
    fresh = Kept(session, is_shared=bool(connection.base_url))
    with _guard:
        while len(_eras) >= ERAS:
            _eras.pop(next(iter(_eras)))
        _eras[place] = session.era
        kept = _kept.setdefault(key, fresh)
        begin_use(kept)
    if kept is not fresh:
        session.close()
    return kept


def open_era_session(make: Callable[[], Transport], until: float, era: str) -> Session:
    """A session in the known era; if the server refuses it, it is asked again which one it speaks."""
    try:
        return sessions.open_server_session(make, until, era)
    except McpRefused:
        if not era:
            raise
    return sessions.open_server_session(make, until)


@contextmanager
def resume_left_session(connection: Connection, user_id: int | None) -> Iterator[Session]:
    """A session of an earlier version, to be attached to one that was left. It is not ended afterwards:
    other calls may wait in it. Raises ToolFailed.
    """
    used = HttpTransport(*http_options(connection, build_secret_headers(connection, user_id)))
    session = Session(used, LEGACY)
    try:
        yield session
    finally:
        session.stop_listening()
        used.leave()


def begin_use(kept: Kept) -> None:
    kept.users += 1
    kept.used_at = monotonic()


def end_use(kept: Kept) -> None:
    with _guard:
        kept.users -= 1
        kept.used_at = monotonic()
        is_over = kept.is_dropped and not kept.users
    if is_over:
        kept.session.close()


def build_secret_headers(connection: Connection, user_id: int | None) -> dict[str, str]:
    """The headers with the user's secret. A login uses a token instead. Raises ToolFailed."""
    if connection.uses_oauth or connection.config.get("client_id"):
        return {}
    host = get_url_host(connection.base_url)
    try:
        return secret_header(connection, user_id, host)
    except Invalid as error:
        raise build_tool_failure(error.code, f"{error} {error.hint}".strip())


def transport(connection: Connection, headers: dict[str, str]) -> Transport:
    if connection.base_url:
        return HttpTransport(*http_options(connection, headers))
    command = connection.config.get("command")
    if refusal := command_refusal(command, settings.MCP_COMMANDS):
        raise McpFailed("command_refused", refusal, was_sent=False)
    return ProgramTransport(command)


def http_options(connection: Connection, headers: dict[str, str]) -> tuple[Any, ...]:
    """The arguments of an HttpTransport."""
    bearer = None
    if connection.uses_oauth:
        bearer = partial(get_current_token, connection.pk)
    return connection.base_url, headers, settings.PRIVATE_HOSTS_ALLOWED, bearer


def get_current_token(connection_id: int, refused: str) -> str:
    """The current token of the login: a session outlives many tokens. Raises ReconnectNeeded,
    ToolFailed.
    """
    connection = Connection.objects.filter(pk=connection_id).first()
    if connection is None:
        raise build_tool_failure("connection_missing", "This connection was deleted.")
    if not connection.is_linked:
        raise ReconnectNeeded(connection, "The server requires a login.")
    return tokens.access_token(connection, refused=refused)


def unusable(connection: Connection, error: McpFailed | McpRefused) -> ToolFailed | OutcomeUnknown:
    """The failure for the run; the connection's health is noted."""
    message = f"{connection.name}: {error}"
    if isinstance(error, McpRefused):
        return build_tool_failure("tool_refused", message)
    if isinstance(error, LoginWanted):
        connection.want_login(error.scopes)
        return ReconnectNeeded(connection, str(error))
    if error.code not in STILL_GOOD:
        connection.mark_broken(str(error))
    if error.is_in_doubt:
        return OutcomeUnknown(f"{message} It is unknown whether the call was carried out.")
    return build_tool_failure(error.code, message)


# -- closing ---------------------------------------------------------------------------------------------------------


def remove_left_session(connection: Connection, session_id: str) -> None:
    """Forget a session and do not end it at the server: a call in it waits for a person."""
    with _guard:
        for key, kept in list(_kept.items()):
            _, connection_id, _ = key
            left_id = getattr(kept.session.transport, "session_id", "")
            if connection_id == connection.pk and left_id == session_id:
                _kept.pop(key)
                # The process that goes on reads the server's stream.
                kept.session.stop_listening()


def drop(key: Key) -> None:
    """Close a session, once nobody uses it any more."""
    with _guard:
        kept = _kept.pop(key, None)
        if kept is None:
            return
        kept.is_dropped = True
        is_over = not kept.users
    if is_over:
        kept.session.close()


def drop_all(connection: Connection) -> None:
    """Close this process's sessions of a connection that was changed or deleted."""
    for key in list(_kept):
        _, connection_id, _ = key
        if connection_id == connection.pk:
            drop(key)


def idle_ones() -> list[Session]:
    """Takes out the sessions that nobody uses and that are old, or too many. Called under the lock."""
    now = monotonic()
    idle = [(kept.used_at, key) for key, kept in _kept.items() if not kept.users]
    surplus = len(_kept) - KEPT
    expired = []
    # The one that was used least recently goes first.
    for number, (used_at, key) in enumerate(sorted(idle)):
        if number < surplus or now - used_at > IDLE_S:
            expired.append(_kept.pop(key).session)
    return expired


@atexit.register
def close_all() -> None:
    # After a fork, the sessions of the parent are not this process's to close.
    for key in list(_kept):
        process_id, _, _ = key
        if process_id == os.getpid():
            drop(key)
    _eras.clear()
