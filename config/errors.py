"""The single error format of the API: {"error": {"code", "message", "hint", "details",
"request_id"}}.
"""

import logging
from typing import Any

from django.conf import settings
from django.core import signals
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as ModelValidationError
from django.db import IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from rest_framework import exceptions as drf
from rest_framework.response import Response

from agents.exceptions import Invalid, MusterError, NotFound
from agents.http.idempotency import Repeated
from agents.http.parsers import body_too_large

log = logging.getLogger(__name__)
REFUSALS = (drf.APIException, Http404, MusterError, PermissionDenied, Repeated)
MOST_DETAILS = 100  # a body can have a hundred thousand faults
WORDS = {
    drf.ParseError: ("malformed", later("Send a JSON body that matches the schema at /api/docs/.")),
    drf.NotAuthenticated: ("not_authenticated", later("Send `Authorization: Bearer <api key>`.")),
    drf.AuthenticationFailed: (
        "not_authenticated",
        later("The key is unknown, expired or revoked; create one with `create_key`."),
    ),
    drf.PermissionDenied: ("forbidden", later("Ask the owner for access, or use a key with the required scope.")),
    drf.NotFound: ("not_found", later("Check the name. Objects of other users are not shown.")),
    drf.MethodNotAllowed: ("method_not_allowed", later("The Allow header lists the methods of this path.")),
    drf.NotAcceptable: ("not_acceptable", later("Ask for application/json.")),
    drf.UnsupportedMediaType: ("unsupported_media_type", later("Send Content-Type: application/json.")),
    drf.Throttled: ("rate_limited", later("Wait for the seconds in Retry-After.")),
}


def handle(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """Turn a view's exception into a response. Unexpected exceptions are logged and answered
    without a stack trace.
    """
    error = count_refused_request(error, context)
    if isinstance(error, Repeated):
        return error.response
    if isinstance(error, ModelValidationError):
        error = Invalid.of(error)
    if isinstance(error, RequestDataTooBig):  # raised by Django itself
        error = body_too_large(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    if isinstance(error, MusterError):
        return build_error_response(
            context, error.status, error.code, str(error), find_hint(error), error.details, error.headers
        )
    if isinstance(error, Http404):
        error = drf.NotFound()
    if isinstance(error, PermissionDenied):
        error = drf.PermissionDenied()
    if isinstance(error, SuspiciousOperation):  # errors that Django itself answers with 400
        hint = _("It has too many parameters or invalid ones; see the schema at /api/docs/.")
        return build_error_response(context, 400, "malformed", _("The request cannot be read."), hint)
    if isinstance(error, drf.ValidationError):
        return build_error_response(
            context, 422, "invalid", _("The body is not valid."), _("See details."), flatten_details(error.detail)
        )
    if isinstance(error, drf.APIException):
        return from_drf(error, context)
    if isinstance(error, IntegrityError):
        log.warning("%s %s met a row that was changed or deleted meanwhile: %s", *method_and_path(context), error)
        return build_error_response(
            context,
            409,
            "changed_meanwhile",
            _("It was changed or deleted meanwhile."),
            _("Look again, then try again."),
        )
    tell_trackers(context)
    log.error("%s %s failed", *method_and_path(context), exc_info=error)
    if isinstance(error, OperationalError | InterfaceError):
        hint = _(
            "Try again in a moment, with the same Idempotency-Key if you sent one: the request may have been stored."
        )
        again = {"Retry-After": "5"}
        return build_error_response(
            context, 503, "database_unavailable", _("The database is unavailable or read-only."), hint, headers=again
        )
    return build_error_response(
        context,
        500,
        "internal_error",
        _("An unexpected error occurred."),
        _("Report the request_id to the administrator."),
    )


def count_refused_request(error: Exception, context: dict[str, Any]) -> Exception:
    """REST framework counts requests after it has asked for permission. Here those count that it refused by then;
    Throttled in place of the error if they are too many.
    """
    view, request = context.get("view"), context.get("request")
    if not isinstance(error, REFUSALS) or view is None or request is None or hasattr(request._request, "rate"):
        return error  # an unexpected error may come from the database, which is asked again who sends the request
    try:
        view.check_throttles(request)
    except drf.Throttled as throttled:
        return throttled
    return error


def find_hint(error: MusterError) -> str:
    """Its own, or what holds for all of its kind."""
    if error.hint or not isinstance(error, NotFound | Invalid):
        return error.hint
    if isinstance(error, NotFound):
        return str(WORDS[drf.NotFound][1])
    return _("See details.") if error.details else _("The schema at /api/docs/ says what is allowed.")


def tell_trackers(context: dict[str, Any]) -> None:
    """Send Django's signal for a failed view, which error trackers listen to; DRF would suppress
    it.

    An exception in a listener is logged by Django and does not change the answer.
    """
    request = getattr(context.get("request"), "_request", None)
    signals.got_request_exception.send_robust(sender=None, request=request)


def method_and_path(context: dict[str, Any]) -> tuple[str, str]:
    request = context.get("request")
    return getattr(request, "method", ""), getattr(request, "path", "")


def from_drf(error: drf.APIException, context: dict[str, Any]) -> Response:
    code, hint = find_words(error)
    headers = {}
    if auth_header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait) + 1)
    hint = getattr(error, "hint", hint)
    return build_error_response(context, error.status_code, code, str(error.detail), str(hint), headers=headers)


def find_words(error: drf.APIException) -> tuple[str, Any]:
    """The code and the hint of its kind."""
    for kind, words in WORDS.items():
        if isinstance(error, kind):
            return words
    return "error", ""


def flatten_details(detail: Any, path: str = "") -> list[dict[str, str]]:
    """Flatten DRF's nested detail into one entry per error: {"field": "grants.0.tool", "code",
    "message"}.
    """
    if isinstance(detail, dict):
        parts = list(detail.items())
    elif isinstance(detail, list | tuple):
        parts = list(enumerate(detail))
        if not any(isinstance(value, dict | list) for value in detail):
            parts = [("", value) for value in detail]  # several errors of one field
    else:
        return [{"field": path, "code": getattr(detail, "code", "invalid"), "message": str(detail)}]
    entries = []
    for key, value in parts:
        entries += flatten_details(value, join(path, key))
    return entries


def join(path: str, key: Any) -> str:
    if key == "non_field_errors":
        return path
    return f"{path}.{key}".strip(".")


def build_error_response(
    context: dict[str, Any],
    status: int,
    code: str,
    message: str,
    hint: str = "",
    details: Any = None,
    headers: dict[str, str] | None = None,
) -> Response:
    shown_details = (details or [])[:MOST_DETAILS]
    body = {
        "code": code,
        "message": message,
        "hint": hint,
        "details": shown_details,
        "request_id": find_request_id(context.get("request")),
    }
    return Response({"error": body}, status=status, headers=headers)


def find_request_id(request: Any) -> str:
    """That of the middleware, on Django's request or on the one that REST framework wraps around it."""
    own = getattr(request, "request_id", None)
    if own:
        return own
    return getattr(getattr(request, "_request", None), "request_id", "")
