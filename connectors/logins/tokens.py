"""Access tokens: a single refresh for all callers, saved immediately, and the form request below
it.

The form requests use the same guarded client as everything else (docs/adr/0060).
"""

from datetime import datetime, timedelta
from time import monotonic
from typing import Any

import httpx2
from django.db.models import Q
from django.utils import timezone

from agents.models import AuditEvent
from agents.tools import ToolFailed
from connectors.exceptions import ReconnectNeeded, build_tool_failure
from connectors.models import Connection
from plumbing import waits
from plumbing.http import outbound
from plumbing.http.failures import describe_failure

from .providers import Login, get_cloud_service
from .server_login import ServerLogin, get_stored_login

# How long a refresh may take before another worker may try.
REFRESH_S = 30
# How often a worker checks whether another worker's refresh is done.
GLANCE_S = 0.05
ANSWER_LIMIT = 256 * 1024
LONGEST_S = 10 * 366 * 86400
NO_CLIENT = "invalid_client"
DEAD = frozenset({"invalid_grant", "unauthorized_client", "interaction_required", "consent_required"})


class OAuthRefused(Exception):
    """The service answered with an OAuth error; `code` is the error code."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code


def access_token(connection: Connection, *, refused: str = "") -> str:
    """A token that is valid for at least another minute. `refused` is a token that just got a 401.

    Of all workers and threads that ask, one refreshes; the others wait for its result. Raises
    ReconnectNeeded, ToolFailed.
    """
    end = monotonic() + REFRESH_S
    while not connection.token_lives(timezone.now(), refused):
        stop_if_dead(connection)
        if take_lease(connection):
            return refresh(connection, refused)
        if monotonic() > end:
            raise build_tool_failure(
                "login_unavailable", "The login is being renewed, but the renewal does not finish."
            )
        # Another worker renews it.
        waits.sleep_until(GLANCE_S)
        connection.refresh_from_db()
    return connection.access_token


def take_lease(connection: Connection) -> bool:
    """One conditional update decides which caller refreshes this version of the token."""
    now = timezone.now()
    is_free = Q(refreshing_until=None) | Q(refreshing_until__lt=now)
    until = now + timedelta(seconds=REFRESH_S)
    rows = Connection.objects.filter(is_free, pk=connection.pk, token_version=connection.token_version)
    return rows.update(refreshing_until=until) == 1


def stop_if_dead(connection: Connection) -> None:
    if connection.refresh_token:
        return
    if connection.health != Connection.Health.BROKEN:
        connection.mark_broken("The login expired, and the service issued no refresh token.")
    raise ReconnectNeeded(connection, "The login has expired.")


def refresh(connection: Connection, refused: str = "") -> str:
    """Request a new token under the lease and save it at once, whatever its lifetime.

    Raises ReconnectNeeded, ToolFailed.
    """
    connection.refresh_from_db()
    # Another worker may have renewed it before this one got the lease.
    if connection.token_lives(timezone.now(), refused):
        release_refresh_lease(connection)
        return connection.access_token
    try:
        login = get_token_login(connection)
        token = send_token_request(login, "token", grant_type="refresh_token", refresh_token=connection.refresh_token)
    except OAuthRefused as error:
        raise record_login_refusal(connection, error)
    except httpx2.HTTPError as error:
        release_refresh_lease(connection)
        raise build_tool_failure("login_unavailable", f"The login cannot be renewed now: {describe_failure(error)}.")
    take_token(connection, token)
    connection.save(
        update_fields=[
            "access_token", "refresh_token", "token_expires_at", "login_ends_at", "scopes", "token_version",
            "refreshing_until",
        ]
    )  # fmt: skip
    connection.mark_ok()
    return connection.access_token


def get_token_login(connection: Connection) -> Login | ServerLogin:
    """The login that issues this connection's tokens. Raises Invalid, NotFound if it has none."""
    if connection.offers_tools:
        return get_stored_login(connection)
    return get_cloud_service(connection.provider).login


def record_login_refusal(connection: Connection, error: OAuthRefused) -> ToolFailed:
    """Record a dead login once; other errors may be temporary."""
    if error.code == NO_CLIENT and connection.login:
        connection.forget_client()
    elif error.code not in DEAD:
        release_refresh_lease(connection)
        return build_tool_failure("login_unavailable", f"The login cannot be renewed now: {error}")
    connection.mark_broken(f"The login has expired ({error.code}): {error}")
    connection.forget_tokens(keeps_scopes=True)
    AuditEvent.record("connection.broken", connection, reason=error.code)
    return ReconnectNeeded(connection, "The login has expired or was revoked.")


def release_refresh_lease(connection: Connection) -> None:
    connection.refreshing_until = None
    Connection.objects.filter(pk=connection.pk).update(refreshing_until=None)


def take_token(connection: Connection, token: dict[str, Any], scopes: list[str] | None = None) -> None:
    """Copy a token answer into the row. If the service sends no new refresh token, the old one is
    kept.
    """
    now = timezone.now()
    connection.access_token = str(token["access_token"])
    connection.refresh_token = str(token.get("refresh_token") or connection.refresh_token)
    connection.token_expires_at = after(now, token.get("expires_in"))
    if ends := after(now, token.get("refresh_token_expires_in")):
        connection.login_ends_at = ends
    # RFC 6749: a service that names no scopes granted those that were asked for.
    granted = token.get("scope") or " ".join(scopes or [])
    if granted:
        connection.scopes = str(granted).split()
    connection.token_version += 1
    connection.refreshing_until = None


def after(now: datetime, seconds: Any) -> datetime | None:
    """None if there is no number. At most ten years: a later time may be none that a database can hold."""
    try:
        lifetime = max(0, min(int(seconds), LONGEST_S))
    except (TypeError, ValueError):
        return None
    return now + timedelta(seconds=lifetime)


def send_token_request(login: Login | ServerLogin, what: str, **form: str) -> dict[str, Any]:
    """One form request of the client. Raises OAuthRefused, httpx2.HTTPError."""
    url = login.url(what)
    more, headers = login.credentials()
    with (
        outbound.client(login.hosts_for(url)) as client,
        outbound.until(REFRESH_S - 5),
        client.stream("POST", url, data=form | more, headers=headers) as response,
    ):
        body = outbound.read_body(response, ANSWER_LIMIT)
        return parse_token_answer(response, body, what)


def parse_token_answer(response: httpx2.Response, body: bytes, what: str) -> dict[str, Any]:
    answer: Any = {}
    try:
        # An empty answer is one to a revocation.
        if body.strip():
            answer = httpx2.Response(200, content=body).json()
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict) and answer.get("error"):
        code = read_error_code(answer["error"])
        raise OAuthRefused(code, str(answer.get("error_description") or code)[:300])
    if response.status_code >= 400 or not isinstance(answer, dict):
        raise httpx2.RemoteProtocolError(f"The login service answered {response.status_code}.")
    if what == "token" and not isinstance(answer.get("access_token"), str):
        raise httpx2.RemoteProtocolError("The answer of the login service contains no token.")
    return answer


def read_error_code(error: Any) -> str:
    """OAuth sends a word; Google's API, which may answer instead, an object."""
    if isinstance(error, dict):
        error = error.get("status", "error")
    return str(error)
