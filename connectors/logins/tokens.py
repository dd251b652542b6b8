"""Access tokens: one refresh however many ask, saved the moment it comes, and the form post beneath.

Five form posts over the same guarded client as everything else (docs/adr/0060).
"""

from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import Any

import httpx
from django.db.models import Q
from django.utils import timezone

from agents.models import AuditEvent
from agents.tools import ToolFailed
from connectors.exceptions import ReconnectNeeded, failed
from connectors.models import Connection
from plumbing import outbound

from .providers import Login, service_of
from .server_login import ServerLogin, kept

REFRESH_S = 30  # one refresh may take so long before another worker may try
GLANCE_S = 0.05  # how often a worker looks whether another's refresh is done
ANSWER_LIMIT = 256 * 1024
NO_CLIENT = "invalid_client"
DEAD = frozenset({"invalid_grant", "unauthorized_client", "interaction_required", "consent_required"})


class OAuthRefused(Exception):
    """The service answered with an OAuth error; `code` is its word."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code


def access_token(connection: Connection, *, refused: str = "") -> str:
    """A token that will live another minute. `refused` is one that the service just answered 401 to.

    However many workers and threads ask, one of them refreshes; the others wait for its answer. Raises ReconnectNeeded,
    ToolFailed.
    """
    end = monotonic() + REFRESH_S
    while not connection.token_lives(timezone.now(), refused):
        stop_if_dead(connection)
        if take_lease(connection):
            return refresh(connection, refused)
        elif monotonic() > end:
            raise failed("login_unavailable", "The login is being renewed, and that does not come to an end.")
        else:
            sleep(GLANCE_S)
            connection.refresh_from_db()
    return connection.access_token


def take_lease(connection: Connection) -> bool:
    """One conditional update decides who refreshes this version of the token."""
    now = timezone.now()
    free = Q(refreshing_until=None) | Q(refreshing_until__lt=now)
    rows = Connection.objects.filter(free, pk=connection.pk, token_version=connection.token_version)
    return rows.update(refreshing_until=now + timedelta(seconds=REFRESH_S)) == 1


def stop_if_dead(connection: Connection) -> None:
    if connection.refresh_token:
        return
    if connection.health != Connection.Health.BROKEN:
        connection.mark_broken("The login ended, and the service gave nothing to renew it with.")
    raise ReconnectNeeded(connection, "The login ended.")


def refresh(connection: Connection, refused: str = "") -> str:
    """Ask for a new token under the lease and save it at once; it is used, however soon it claims to end.

    Raises ReconnectNeeded, ToolFailed.
    """
    connection.refresh_from_db()
    if connection.token_lives(timezone.now(), refused):
        release(connection)
        return connection.access_token
    try:
        login = login_of(connection)
        token = post(login, "token", grant_type="refresh_token", refresh_token=connection.refresh_token)
    except OAuthRefused as error:
        raise refusal(connection, error)
    except httpx.HTTPError as error:
        release(connection)
        raise failed("login_unavailable", f"The login cannot be renewed now: {type(error).__name__}.")
    take_token(connection, token)
    connection.save(
        update_fields=[
            "access_token", "refresh_token", "token_expires_at", "login_ends_at", "scopes", "token_version",
            "refreshing_until",
        ]
    )  # fmt: skip
    connection.mark_ok()
    return connection.access_token


def login_of(connection: Connection) -> Login | ServerLogin:
    """Where this connection's tokens come from. Raises Invalid, NotFound for one that has no login."""
    return kept(connection) if connection.offers_tools else service_of(connection.provider).login


def refusal(connection: Connection, error: OAuthRefused) -> ToolFailed:
    """A dead login is written down once; anything else may pass."""
    if error.code == NO_CLIENT and connection.login:
        connection.forget_client()
    elif error.code not in DEAD:
        release(connection)
        return failed("login_unavailable", f"The login cannot be renewed now: {error}")
    connection.mark_broken(f"The login ended ({error.code}): {error}")
    connection.forget_tokens(keeps_scopes=True)
    AuditEvent.record("connection.broken", connection, reason=error.code)
    return ReconnectNeeded(connection, "The login ended or was taken back.")


def release(connection: Connection) -> None:
    connection.refreshing_until = None
    Connection.objects.filter(pk=connection.pk).update(refreshing_until=None)


def take_token(connection: Connection, token: dict[str, Any], asked: list[str] | None = None) -> None:
    """Copy a token answer into the row. A service that sends no new refresh token lets us keep the old one."""
    now = timezone.now()
    connection.access_token = str(token["access_token"])
    connection.refresh_token = str(token.get("refresh_token") or connection.refresh_token)
    connection.token_expires_at = after(now, token.get("expires_in"))
    if ends := after(now, token.get("refresh_token_expires_in")):
        connection.login_ends_at = ends
    if granted := token.get("scope") or (" ".join(asked) if asked else ""):
        connection.scopes = str(granted).split()
    connection.token_version += 1
    connection.refreshing_until = None


def after(now: datetime, seconds: Any) -> datetime | None:
    try:
        return now + timedelta(seconds=max(0, min(int(seconds), 10 * 366 * 86400)))
    except (TypeError, ValueError):
        return None


def post(login: Login | ServerLogin, what: str, **form: str) -> dict[str, Any]:
    """One form post of the client. Raises OAuthRefused, httpx.HTTPError."""
    url = login.url(what)
    more, headers = login.credentials()
    with (
        outbound.client(login.hosts_for(url)) as client,
        outbound.until(REFRESH_S - 5),
        client.stream("POST", url, data=form | more, headers=headers) as response,
    ):
        body = outbound.read_body(response, ANSWER_LIMIT)
        return read_answer(response, body, what)


def read_answer(response: httpx.Response, body: bytes, what: str) -> dict[str, Any]:
    try:
        answer = httpx.Response(200, content=body).json() if body.strip() else {}
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("error"):
        error = answer["error"]
        code = str(error.get("status", "error") if isinstance(error, dict) else error)
        raise OAuthRefused(code, str(answer.get("error_description") or code)[:300])
    if response.status_code >= 400 or not isinstance(answer, dict):
        raise httpx.RemoteProtocolError(f"The login service answered {response.status_code}.")
    if what == "token" and not isinstance(answer.get("access_token"), str):
        raise httpx.RemoteProtocolError("The login service's answer holds no token.")
    return answer
