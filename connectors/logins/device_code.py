"""The OAuth device code flow: a machine without a browser shows a code, which the user enters in a
browser elsewhere.
"""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import httpx2
from django.db.models import F, Q
from django.utils import timezone

from agents.exceptions import Conflict, Invalid, NotFound, Unavailable
from connectors.models import Authorization, Connection
from plumbing.http.failures import describe_failure

from .oauth import build_state_hash, get_configured_service, save_login
from .providers import Service, get_cloud_service
from .tokens import OAuthRefused, after, send_token_request


def start_device_login(user: Any, provider: str, *, access: Iterable[str] = (), name: str = "") -> dict[str, Any]:
    """Start a login: the code, the address to enter it at, and the id for polling. Raises Invalid."""
    service = get_configured_service(provider)
    scopes = service.scopes_for(access or ["read"])
    try:
        answer = send_token_request(service.login, "device", scope=" ".join(scopes))
    except OAuthRefused as refused:
        raise Invalid(f"{service.title} refused the login: {refused}", code="login_refused")
    except httpx2.HTTPError as error:
        raise Unavailable(
            f"{service.title} cannot be reached: {describe_failure(error)}.",
            hint="Try again. If it lasts, check the network of the server.",
        )
    now = timezone.now()
    expires_at = after(now, answer.get("expires_in", 900)) or now
    # Nobody is sent here with a state: a random one keeps the row from being found by one.
    state = secrets.token_urlsafe(32)
    authorization = Authorization.objects.create(
        user=user,
        provider=provider,
        state_hash=build_state_hash(state),
        scopes=scopes,
        name=name,
        device_code=str(answer["device_code"]),
        interval_s=int(answer.get("interval", 5)),
        expires_at=expires_at,
    )
    # RFC 8628 says `verification_uri`; Google's service is older.
    uri = answer.get("verification_uri") or answer.get("verification_url", "")
    return {
        "id": authorization.pk,
        "user_code": answer.get("user_code", ""),
        "verification_uri": uri,
        "interval": authorization.interval_s,
        "expires_at": expires_at,
    }


def poll(user: Any, provider: str, authorization_id: int) -> Connection | None:
    """The connection when the user has agreed, None until then. Polls no faster than the service
    allows.

    Raises NotFound, Conflict, Invalid, Unavailable.
    """
    service = get_cloud_service(provider)
    rows = Authorization.objects.visible_to(user).filter(pk=authorization_id, provider=provider)
    authorization = rows.exclude(device_code="").first()
    if authorization is None:
        raise NotFound("There is no such login.")
    now = timezone.now()
    if authorization.used_at or authorization.expires_at <= now:
        raise Conflict("This login was already used or has expired.", hint="Start again.")
    if not may_poll(authorization, now):
        return None
    try:
        token = send_token_request(
            service.login,
            "token",
            grant_type="urn:ietf:params:oauth:grant-type:device_code",
            device_code=authorization.device_code,
        )
    except OAuthRefused as refused:
        still_pending(authorization, refused, service)
        return None
    except httpx2.HTTPError as error:
        raise Unavailable(
            f"{service.title} cannot be reached: {describe_failure(error)}.",
            hint="Try again. If it lasts, check the network of the server.",
        )
    if not authorization.use_up(now):
        raise Conflict("This login was already used.", hint="List your connections, or begin another login.")
    return save_login(authorization, token)


def may_poll(authorization: Authorization, now: datetime) -> bool:
    """True at most once in the interval, whoever asks."""
    is_due = Q(next_poll_at=None) | Q(next_poll_at__lte=now)
    next_at = now + timedelta(seconds=authorization.interval_s)
    rows = Authorization.objects.filter(is_due, pk=authorization.pk)
    return rows.update(next_poll_at=next_at) == 1


def still_pending(authorization: Authorization, refused: OAuthRefused, service: Service) -> None:
    rows = Authorization.objects.filter(pk=authorization.pk)
    if refused.code == "authorization_pending":
        return
    if refused.code == "slow_down":
        # RFC 8628: five seconds longer, for all further requests.
        later = timezone.now() + timedelta(seconds=authorization.interval_s + 5)
        rows.update(interval_s=F("interval_s") + 5, next_poll_at=later)
        return
    rows.update(used_at=timezone.now())
    raise Invalid(f"{service.title} refused the login: {refused}", code="login_refused")
