"""OAuth 2.1 for MCP clients: the site is its own authorization server, built on django-oauth-toolkit.

Each authorization has an API key whose secret nobody knows. A token acts with the scopes that both
it and this key have, so an authorization is listed, limited and revoked like every other key.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import get_script_prefix, reverse
from django.utils import timezone
from oauth2_provider.cimd import CIMDError, SafeMetadataFetcher
from oauth2_provider.models import AccessToken, RefreshToken
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import (
    AuthorizationView,
    DynamicClientRegistrationManagementView,
    DynamicClientRegistrationView,
    OAuthProtectedResourceMetadataView,
    TokenView,
)
from rest_framework.authentication import get_authorization_header

from agents import roles
from agents.http import throttles
from agents.http.authentication import ApiKeyAuthentication, NotRecognised
from agents.http.credential_checks import CredentialCheck
from agents.models import ApiKey, AuditEvent
from plumbing.http import outbound

JSON = Any
RESOURCE = "/mcp"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
GRANTS = ("authorization_code", "refresh_token")
# Registrations in a minute from one address.
REGISTRATIONS = 20
# The site's policy for pages, with the client's address: a browser follows a form's redirect only there.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)


# -- using a token --------------------------------------------------------------------------------------------------


class McpAuthentication(ApiKeyAuthentication):
    """An API key, or an access token that was issued for this endpoint."""

    def authenticate(self, request: Any) -> tuple[Any, ApiKey] | None:
        words = get_authorization_header(request).decode("latin-1").split()
        if len(words) != 2 or words[0].lower() != "bearer" or words[1].startswith("mk_"):
            return super().authenticate(request)
        key = find_token_key(words[1], build_resource_url(request))
        if key is None:
            raise NotRecognised(
                "This access token is unknown, expired, revoked or meant for another service.", hint="Sign in again."
            )
        key.mark_used()
        return key.user, key

    def authenticate_header(self, request: Any) -> str:
        where = request.build_absolute_uri(reverse("oauth-resource", args=[RESOURCE.strip("/")]))
        wrong = ', error="invalid_token"' if request.headers.get("Authorization") else ""
        return f'Bearer resource_metadata="{where}"{wrong}'


def build_resource_url(request: HttpRequest) -> str:
    """The address of this endpoint, which tokens are issued for."""
    return request.build_absolute_uri(reverse("mcp"))


def find_token_key(token: str, resource: str) -> ApiKey | None:
    """The key that a token acts with, with no more scopes than the token has."""
    checksum = sha256(token.encode()).hexdigest()
    row = AccessToken.objects.select_related("refresh_token").filter(token_checksum=checksum).first()
    if row is None or row.is_expired() or resource not in (row.resource or ()):
        return None
    refresh_token = getattr(row, "refresh_token", None)
    if refresh_token is None or refresh_token.revoked is not None:
        return None
    key = live_key(refresh_token.token_family)
    if key is None or key.user_id != row.user_id or not key.user.is_active:
        return None
    # The person may have taken scopes from the key, and the client may have asked for fewer.
    granted = row.scope.split()
    key.scopes = [scope for scope in key.scopes if scope in granted]
    return key


def live_key(family: UUID | None) -> ApiKey | None:
    """The key of an authorization; `family` is what its tokens have in common."""
    if family is None:
        return None
    key = ApiKey.objects.select_related("user").filter(authorization=family, revoked_at=None).first()
    if key is None or not key.is_live():
        return None
    return key


@dataclass(frozen=True, slots=True)
class TokenStanding(CredentialCheck):
    """Of an access token: its key is valid, and the authorization has a token that is not revoked."""

    family: UUID | None = None

    def is_good(self) -> bool:
        if not CredentialCheck.is_good(self):
            return False
        return RefreshToken.objects.filter(token_family=self.family, revoked=None).exists()


def build_key_standing(key: ApiKey) -> CredentialCheck:
    """What ends a stream: that of an access token ends with the authorization too."""
    if key.authorization:
        return TokenStanding(key.pk, family=key.authorization)
    return CredentialCheck(key.pk)


# -- issuing tokens -------------------------------------------------------------------------------------------------


class Validator(OAuth2Validator):
    """Authorization codes with PKCE and refresh tokens only, as long as the key lives."""

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Any, request: Any, *args: Any, **more: Any
    ) -> bool:
        allowed: bool = super().validate_grant_type(client_id, grant_type, client, request, *args, **more)
        return grant_type in GRANTS and allowed

    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Any, *args: Any, **more: Any) -> bool:
        allowed: bool = super().validate_redirect_uri(client_id, redirect_uri, request, *args, **more)
        return allowed and is_safe(redirect_uri)

    def validate_code(self, client_id: str, code: str, client: Any, request: Any, *args: Any, **more: Any) -> bool:
        """A code that comes a second time was stolen, before or after its first use: what it gave ends (RFC 9700)."""
        if super().validate_code(client_id, code, client, request, *args, **more):
            return True
        key = live_key(derive_token_family(code, client))
        if key:
            key.revoke()
            AuditEvent.record("apikey.code_reused", key, actor=key.user, client=client.client_id)
        return False

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Any, *args: Any, **more: Any) -> bool:
        if not super().validate_refresh_token(refresh_token, client, request, *args, **more):
            return False
        row = request.refresh_token_instance
        if row.created < timezone.now() - timedelta(seconds=oauth2_settings.REFRESH_TOKEN_EXPIRE_SECONDS):
            # The library leaves that to the command that deletes old rows.
            return False
        key = live_key(row.token_family)
        return key is not None and key.user.is_active

    def _save_bearer_token(self, token: dict[str, JSON], request: Any, *args: Any, **more: Any) -> None:
        super()._save_bearer_token(token, request, *args, **more)
        checksum = sha256(token["refresh_token"].encode()).hexdigest()
        row = RefreshToken.objects.filter(token_checksum=checksum, revoked=None).get()
        if request.grant_type == "authorization_code":
            row.token_family = derive_token_family(request.code, request.client)
            row.save(update_fields=["token_family"])
        if ApiKey.objects.filter(authorization=row.token_family).exists():
            return
        client = request.client
        scopes = sorted(scope for scope in token["scope"].split() if roles.allows(request.user, scope))
        name = f"{client.name or 'MCP client'} (OAuth)"[:100]
        key, _ = ApiKey.make(request.user, scopes, name=name)
        ApiKey.objects.filter(pk=key.pk).update(authorization=row.token_family)
        AuditEvent.record("apikey.authorized", key, actor=request.user, client=client.client_id, scopes=scopes)

    def revoke_token(self, token: str, token_type_hint: str, request: Any, *args: Any, **more: Any) -> None:
        """The client gives its authorization back: the key ends with it."""
        checksum = sha256(token.encode()).hexdigest()
        own = RefreshToken.objects.filter(application_id=getattr(request.client, "pk", None))
        # The client may send either of its two tokens.
        tokens = own.filter(token_checksum=checksum) | own.filter(access_token__token_checksum=checksum)
        for family in list(tokens.values_list("token_family", flat=True)):
            key = live_key(family)
            if key:
                key.revoke()
        super().revoke_token(token, token_type_hint, request, *args, **more)


def derive_token_family(code: str, client: Any) -> UUID:
    """What the tokens of an authorization have in common follows from its code, which is deleted when it is used."""
    digest = sha256(f"{client.pk} {code}".encode()).digest()
    return UUID(bytes=digest[:16])


def is_safe(redirect_uri: str) -> bool:
    """A code is sent to an encrypted address, or to a program on the person's own machine."""
    where = urlsplit(redirect_uri)
    if where.scheme == "https":
        return True
    return where.scheme == "http" and where.hostname in LOOPBACK


class Documents(SafeMetadataFetcher):
    """Fetches client id metadata documents as all addresses that strangers name: only from public ones."""

    def fetch(self, client_id: str) -> tuple[dict[str, JSON], int]:
        """The document, and for how many seconds it holds. Raises CIMDError."""
        where = urlsplit(client_id)
        if where.scheme != "https" or "@" in where.netloc or where.fragment:
            raise CIMDError("A client id must be an https address without credentials and fragment.")
        headers = {"Accept": "application/json, application/*+json"}
        try:
            with (
                outbound.until(oauth2_settings.CIMD_FETCH_TIMEOUT_SECONDS),
                outbound.client(()) as http,
                http.stream("GET", client_id, headers=headers) as response,
            ):
                body = outbound.read_body(response, oauth2_settings.CIMD_MAX_DOCUMENT_SIZE)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise CIMDError(f"The client's document could not be fetched: {error}")
        answer = SimpleNamespace(status=response.status_code, headers=response.headers, read=lambda _: body)
        try:
            document, seconds = self._read_document(answer)
        except RecursionError:
            raise CIMDError("The client's document is nested too deeply.") from None
        return document, int(seconds)


# -- pages and documents ----------------------------------------------------------------------------------------------


class ConsentView(AuthorizationView):
    """The person sees which client asks for what, and allows or refuses it."""

    template_name = "muster/authorize.html"

    def get_context_data(self, **context: Any) -> dict[str, JSON]:
        context = super().get_context_data(**context)
        where = urlsplit(context.get("redirect_uri") or "")
        context["goes_to"] = where.hostname or ""
        context["is_local"] = where.hostname in LOOPBACK
        return context

    def render_to_response(self, context: dict[str, JSON], **more: Any) -> HttpResponse:
        response = super().render_to_response(context, **more)
        where = urlsplit(context.get("redirect_uri") or "")
        policy = POLICY
        # A space would begin another source of the policy.
        if where.netloc and " " not in where.netloc:
            policy += f" {where.scheme}://{where.netloc}"
        response.headers["Content-Security-Policy"] = policy
        return response

    def form_valid(self, form: Any) -> HttpResponse:
        """The person's role limits what a client gets."""
        asked_scopes = form.cleaned_data["scope"].split()
        scopes = [scope for scope in asked_scopes if roles.allows(self.request.user, scope)]
        form.cleaned_data["scope"] = " ".join(scopes)
        return super().form_valid(form)


class IssueView(TokenView):
    """Tokens are for this endpoint alone (RFC 8707); a client that names no resource gets one for it."""

    def post(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        form, own = request.POST.copy(), build_resource_url(request)
        if any(one.rstrip("/") != own for one in form.getlist("resource")):
            error = {"error": "invalid_target", "error_description": f"Tokens are issued for {own} alone."}
            return JsonResponse(error, status=400)
        form.setlist("resource", [own])
        request.POST = form  # type: ignore[assignment]
        return super().post(request, *args, **more)


class RegistrationView(DynamicClientRegistrationView):
    """Clients register themselves (RFC 7591), a few a minute from one address. Those that nobody uses are deleted with
    old rows (runs/worker/pruning.py).
    """

    def post(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        """The limits come first: no row is read or written for a request beyond them."""
        client = throttles.find_client(request)
        [registrations] = throttles.count_in_windows([f"register:{client}"])
        if registrations > REGISTRATIONS or not throttles.admit_request(request.user, None, client):
            return HttpResponse(status=429, headers={"Retry-After": str(throttles.WINDOW_S)})
        refusal = unsafe_redirects(request)
        if refusal is not None:
            return refusal
        return super().post(request, *args, **more)


class RegisteredView(DynamicClientRegistrationManagementView):
    """A client reads, changes and deletes its own registration (RFC 7592)."""

    def put(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        refusal = unsafe_redirects(request)
        if refusal is not None:
            return refusal
        return super().put(request, *args, **more)


def unsafe_redirects(request: HttpRequest) -> HttpResponse | None:
    """The refusal of a registration whose codes would be sent in the clear; the library judges everything else."""
    try:
        addresses = json.loads(request.body)["redirect_uris"]
        is_refused = not all(is_safe(address) for address in addresses)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    except RecursionError:  # the library reads the body again, and would not catch it
        error = {"error": "invalid_client_metadata", "error_description": "The body is nested too deeply."}
        return JsonResponse(error, status=400)
    if not is_refused:
        return None
    error = {
        "error": "invalid_redirect_uri",
        "error_description": "Each redirect address must begin with https://, or with http:// on this machine itself.",
    }
    return JsonResponse(error, status=400)


class ResourceView(OAuthProtectedResourceMetadataView):
    """RFC 9728: which server issues tokens for this endpoint."""

    def get_resource(self, request: HttpRequest) -> str:
        return build_resource_url(request)

    def get_authorization_servers(self, request: HttpRequest) -> list[str]:
        return [request.build_absolute_uri(get_script_prefix()).rstrip("/")]
