"""Authentication by API key, and the check of the key's scopes."""

from typing import Any

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission

from agents import roles
from agents.exceptions import Forbidden
from agents.models import ApiKey
from plumbing.untrusted import parse_in_child


class NotRecognised(AuthenticationFailed):
    """A credential that is no API key, with a hint of its own."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer mk_….…`. Tokens in the query string are not accepted."""

    def authenticate(self, request: Any) -> tuple[Any, ApiKey] | None:
        words = get_authorization_header(request).decode("latin-1").split()
        if not words or words[0].lower() != "bearer":
            return None
        # An empty key is refused like a wrong one.
        presented = words[1] if len(words) == 2 else ""
        return self.checked(presented)

    def checked(self, presented: str) -> tuple[Any, ApiKey]:
        """Raises AuthenticationFailed."""
        key = ApiKey.find(presented)
        if key is None:
            raise AuthenticationFailed("This API key is unknown, expired or revoked.")
        key.mark_used()
        return key.user, key

    def authenticate_header(self, request: Any) -> str:
        return 'Bearer realm="muster"'


class HasScope(BasePermission):
    """A view names its `scope` ("agents"): safe methods need agents:read, others agents:write.

    `scopes = {"execute": "functions:execute"}` on a view names exceptions by action or by method. A
    browser's login session has every scope of its user. The person's role on the site limits both
    (agents/roles.py), except for `personal` actions, such as leaving a team.
    """

    message = "This key lacks the required scope."

    def has_permission(self, request: Any, view: Any) -> bool:
        if not request.user or not request.user.is_authenticated:
            return False
        # Processing this request counts against this user's limits.
        parse_in_child.person.set(str(request.user.pk))
        scope = find_scope(request, view)
        key = find_key(request)
        if key is not None and scope is not None and not key.allows(scope):
            self.message = f"This key lacks the scope {scope}."
            return False
        is_personal = getattr(view, "action", None) in getattr(view, "personal", ())
        if not is_personal:
            # A view without a scope still takes a role that may read or write at all.
            roles.require(request.user, scope or f"any:{find_verb(request)}")
        return True


def require_scope(request: Any, scope: str) -> None:
    """For a scope that a request needs because of its body. Raises Forbidden."""
    key = find_key(request)
    if key is not None and not key.allows(scope):
        raise Forbidden(
            f"This key lacks the scope {scope}.",
            hint="Use a key that has it. The scopes of a key are set when it is created and cannot be added later.",
        )
    roles.require(request.user, scope)


def find_key(request: Any) -> ApiKey | None:
    """The API key of the request; None for a login session."""
    return request.auth if isinstance(request.auth, ApiKey) else None


def find_scope(request: Any, view: Any) -> str | None:
    """The scope that a request needs; None if any valid key is accepted."""
    exceptions = getattr(view, "scopes", {})
    for word in (getattr(view, "action", None), request.method.lower()):
        if word in exceptions:
            return exceptions[word]
    resource = getattr(view, "scope", None)
    if resource is None:
        return None
    return f"{resource}:{find_verb(request)}"


def find_verb(request: Any) -> str:
    return "read" if request.method in SAFE_METHODS else "write"
