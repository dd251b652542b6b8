"""OAuth 2: authorize with state and PKCE, one-time callback, revoke. Tokens are handled in
connectors/logins/tokens.py.
"""

import base64
import hashlib
import secrets
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import httpx2
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.exceptions import Conflict, Invalid, NotFound, Unavailable
from agents.models import AuditEvent
from connectors.models import Authorization, Connection
from plumbing.http.failures import describe_failure

from .providers import Login, Service, get_cloud_service
from .server_login import ServerLogin, fetch_server_login
from .tokens import NO_CLIENT, OAuthRefused, get_token_login, send_token_request, take_token

# A login must be completed within ten minutes.
AUTHORIZATION_S = 600


# -- authorise -----------------------------------------------------------------------------------------------------


def start_oauth_login(
    user: Any, provider: str, *, access: Iterable[str] = (), name: str = "", connection: Connection | None = None
) -> tuple[str, Authorization]:
    """The address where the user agrees, and the row that waits for the callback. Raises Invalid,
    Unavailable.
    """
    login, scopes = choose_asked_login(user, provider, access, connection)
    state = secrets.token_urlsafe(32)
    verifier = secrets.token_urlsafe(48)
    expires_at = timezone.now() + timedelta(seconds=AUTHORIZATION_S)
    authorization = Authorization.objects.create(
        user=user,
        provider=provider,
        state_hash=build_state_hash(state),
        verifier=verifier,
        name=name,
        connection=connection,
        scopes=scopes,
        expires_at=expires_at,
    )
    query = {
        "response_type": "code",
        "client_id": login.client_id,
        "redirect_uri": redirect_uri(provider),
        "state": state,
        "code_challenge": challenge(verifier),
        "code_challenge_method": "S256",
        **dict(login.extra),
    }
    if scopes:
        query["scope"] = " ".join(scopes)
    if connection is not None and connection.account:
        query["login_hint"] = connection.account
    address = login.url("authorize")
    separator = "&" if "?" in address else "?"
    return f"{address}{separator}{urlencode(query)}", authorization


def choose_asked_login(
    user: Any, provider: str, access: Iterable[str], connection: Connection | None
) -> tuple[Login | ServerLogin, list[str]]:
    """The login and its scopes: the site's client for a cloud service, or the login that an MCP
    server requires.
    """
    if provider == Connection.Provider.MCP:
        if connection is None:
            raise Invalid(
                "Name the MCP server.",
                code="connection_missing",
                hint="Add the server first, then give its name as `connection`.",
            )
        login = fetch_server_login(connection, user, redirect_uri(provider))
        return login, list(login.scopes)
    service = get_configured_service(provider)
    return service.login, wanted_scopes(service, access, connection)


def wanted_scopes(service: Service, access: Iterable[str], connection: Connection | None) -> list[str]:
    """The requested scopes, together with those that a reconnected account already had."""
    before = connection.scopes if connection is not None else []
    scopes = [*service.scopes_for(access), *before]
    return list(dict.fromkeys(scopes))


def get_configured_service(provider: str) -> Service:
    service = get_cloud_service(provider)
    if not service.is_configured:
        family = service.login.family
        raise Invalid(
            f"This site has no OAuth client for {service.title}.",
            code="not_configured",
            hint=f"An administrator can set MUSTER_{family}_CLIENT_ID and MUSTER_{family}_CLIENT_SECRET.",
        )
    return service


def redirect_uri(provider: str) -> str:
    base = settings.PUBLIC_URL.rstrip("/")
    return f"{base}/api/v1/connections/{provider}/callback"


def build_state_hash(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()


def challenge(verifier: str) -> str:
    """The challenge S256 of PKCE (RFC 7636)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


# -- callback ------------------------------------------------------------------------------------------------------


def finish_oauth_login(
    user: Any, provider: str, *, state: str, code: str = "", error: str = "", iss: str = ""
) -> Connection:  # fmt: skip
    """The connection that a callback creates or renews. A state is valid once, for the user it was
    made for.

    Raises NotFound (unknown state or another user's), Conflict (used or expired), Invalid (refused
    by the service, or `iss` names another service).
    """
    started = Authorization.objects.visible_to(user).filter(provider=provider)
    authorization = started.filter(state_hash=build_state_hash(state)).first()
    if authorization is None:
        raise NotFound("This login was not started here.", hint="Start again from the connections page.")
    if not authorization.use_up(timezone.now()):
        raise Conflict("This login was already used, or took longer than ten minutes.", hint="Start again.")
    login, title = get_started_login(authorization)
    if isinstance(login, ServerLogin):
        # A code of one service must not be sent to another (RFC 9207).
        must_match = iss or login.names_issuer
        if must_match and iss != login.issuer:
            raise Invalid("The answer came from another service than the one that was asked.", code="login_refused")
    if error or not code:
        raise Invalid(f"The login was not completed: {(error or 'no code came')[:200]}.", code="login_refused")
    try:
        token = send_token_request(
            login,
            "token",
            grant_type="authorization_code",
            code=code,
            redirect_uri=redirect_uri(provider),
            code_verifier=authorization.verifier,
        )
    except OAuthRefused as refused:
        if refused.code == NO_CLIENT and isinstance(login, ServerLogin):
            authorization.connection.forget_client()
        raise Invalid(f"{title} refused the login: {refused}", code="login_refused", hint="Start again.")
    except httpx2.HTTPError as error:
        raise Unavailable(
            f"{title} cannot be reached: {describe_failure(error)}.",
            hint="Try again. If it lasts, check the network of the server.",
        )
    return save_login(authorization, token)


def get_started_login(authorization: Authorization) -> tuple[Login | ServerLogin, str]:
    """The service of this login, and its display name."""
    if authorization.provider == Connection.Provider.MCP:
        return get_token_login(authorization.connection), authorization.connection.name
    service = get_cloud_service(authorization.provider)
    return service.login, service.title


@transaction.atomic
def save_login(authorization: Authorization, token: dict[str, Any]) -> Connection:
    """The row that stores the tokens: the one being reconnected, else a new one."""
    connection = authorization.connection
    if connection is None:
        name = choose_connection_name(authorization.user, authorization.name or authorization.provider)
        connection = Connection(owner=authorization.user, provider=authorization.provider, name=name)
    take_token(connection, token, scopes=authorization.scopes)
    connection.health = Connection.Health.OK
    connection.last_error = ""
    connection.enabled = True
    connection.checked_at = timezone.now()
    connection.save()
    AuditEvent.record("connection.connected", connection, actor=authorization.user, scopes=connection.scopes)
    return connection


def choose_connection_name(user: Any, base: str) -> str:
    rows = Connection.objects.filter(owner=user, name__startswith=base)
    existing = set(rows.values_list("name", flat=True))
    if base not in existing:
        return base
    numbered = (f"{base}-{number}" for number in range(2, len(existing) + 3))
    return next(name for name in numbered if name not in existing)


# -- revoke --------------------------------------------------------------------------------------------------------


def revoke(connection: Connection) -> bool:
    """Forget the tokens and revoke them at the service if it supports that. True if the service
    confirmed.
    """
    is_confirmed = tell_revoked(connection)
    connection.forget_tokens()
    connection.mark_broken("Disconnected.")
    return is_confirmed


def tell_revoked(connection: Connection) -> bool:
    """Ask the service to revoke the login. False if it cannot, or did not answer."""
    login = get_token_login(connection)
    token = connection.refresh_token or connection.access_token
    if not login.url("revoke") or not token:
        return False
    try:
        send_token_request(login, "revoke", token=token)
    except (OAuthRefused, httpx2.HTTPError):
        # The user sees a warning; our copy is deleted in any case.
        return False
    return True
