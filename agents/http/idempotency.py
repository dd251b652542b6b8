"""`Idempotency-Key`: a repeated POST gets the first one's answer and is not carried out again (docs/adr/0104)."""

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict, IdempotencyMismatch, Invalid
from agents.models import ApiKey, IdempotentRequest
from agents.schema import canonical_json

# The other protocols have rules of their own.
API = "/api/v1/"
# Characters.
LONGEST_KEY = 255
# Bytes of an answer that is kept.
LARGEST = 262_144
HANDED_ON = ("Content-Type", "Location", "ETag")
# Errors after which the request may have been stored.
UNSURE = ("internal_error", "database_unavailable")
# Refusals after something was done: kept as answers, or it would be done again.
CARRIED_OUT = ("callback_needs_a_run",)


class Repeated(Exception):
    """The request was carried out before; `response` is what was answered."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__()
        self.response = response


def remember_request(request: Any, view: Any) -> None:
    """Remember a POST that has a key, until `settlement`. Raises what `begin_request` raises.

    A view names in `keeps_keys` the actions or methods that find an earlier request themselves, and in
    `secret_answers` those whose answers contain what is shown only once.
    """
    if request.method != "POST" or not request.path_info.startswith(API) or not remembers_keys(view):
        return
    if is_among(view, request, "keeps_keys"):
        return
    key = read_key(request)
    if key:
        is_secret = is_among(view, request, "secret_answers")
        request._request.idempotent = begin_request(request, key), is_secret


def remembers_keys(view: Any) -> bool:
    """A key belongs to a person, and a view without authentication does not know who sends it."""
    return bool(view.authentication_classes)


def is_among(view: Any, request: Any, name: str) -> bool:
    """Whether the view lists the request's action or method in this attribute."""
    listed = getattr(view, name, ())
    return getattr(view, "action", None) in listed or request.method.lower() in listed


def read_key(request: Any) -> str | None:
    """Raises Invalid."""
    key = request.headers.get("Idempotency-Key")
    if key and len(key) > LONGEST_KEY:
        raise Invalid(_("Idempotency-Key is longer than 255 characters."), hint=_("Use a UUID."))
    return key or None


def begin_request(request: Any, key: str) -> IdempotentRequest:
    """The row of a new request. Raises Repeated, IdempotencyMismatch, Conflict, ParseError."""
    request_hash = hash_request(request)
    row, is_new = IdempotentRequest.objects.claim(request.user, scope_key(request, key), request_hash)
    if is_new:
        return row
    if row.request_hash != request_hash:
        raise IdempotencyMismatch(hint=_("Use a new Idempotency-Key for another request."))
    if row.status is None:
        raise Conflict(
            _("A request with this Idempotency-Key is at work, or was interrupted."),
            code="idempotency_unfinished",
            hint=_("Send it again in a moment. If this stays, read whether it took effect before you use a new key."),
        )
    if row.content is None:
        raise Conflict(
            _("This request was carried out before, and its answer was not kept."),
            code="already_done",
            hint=_("Read what it made at the address in Location. Secrets are shown only once."),
            headers={"Location": row.headers["Location"]} if "Location" in row.headers else {},
        )
    headers = {**row.headers, "Idempotent-Replayed": "true"}
    raise Repeated(HttpResponse(row.content.encode(), status=row.status, headers=headers))


def scope_key(request: Any, key: str) -> str:
    """The claim of a run reaches that run alone, so its keys are apart from those of its person and of other runs."""
    if request.auth is None or isinstance(request.auth, ApiKey):
        return key
    return salted_hmac("idempotency", f"{request.auth.pk} {key}", algorithm="sha256").hexdigest()


def hash_request(request: Any) -> str:
    """Of the path and the body, as it was read: spaces and the order of fields do not matter."""
    data = request.data
    # A form has several values for a name.
    if hasattr(data, "lists"):
        data = {name: [file_hash(value) for value in values] for name, values in data.lists()}
    text = canonical_json([request.get_full_path(), data])
    # With the site's key: a body may contain a short secret, which could be guessed from a plain hash.
    return salted_hmac("idempotency", text, algorithm="sha256").hexdigest()


def file_hash(value: Any) -> Any:
    if not isinstance(value, UploadedFile):
        return value
    digest = sha256()
    for chunk in value.chunks():
        digest.update(chunk)
    value.seek(0)
    return [value.name, value.content_type, digest.hexdigest()]


def settlement(answer: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: what became of a request that `remember_request` has kept."""

    def settled(request: HttpRequest) -> HttpResponseBase:
        response = answer(request)
        remembered = getattr(request, "idempotent", None)
        if remembered is None:
            return response
        row, is_secret = remembered
        # If this fails, the row says that the outcome is not known, which is true.
        with suppress(DatabaseError):
            settle_request(row, response, is_secret=is_secret)
        return response

    return settled


def settle_request(row: IdempotentRequest, response: Any, *, is_secret: bool) -> None:
    """An answer is kept; a refusal changed nothing, so its key can be used again. Except after CARRIED_OUT."""
    if response.status_code < 400 or error_code(response) in CARRIED_OUT:
        row.status = response.status_code
        row.content = None if is_secret else read_content(response)
        row.headers = {name: response[name] for name in HANDED_ON if name in response}
        row.save(update_fields=["status", "headers", "content"])
    elif error_code(response) not in UNSURE:
        row.delete()


def read_content(response: Any) -> str | None:
    """None if it is not kept: what is no text, and what is large."""
    if response.streaming or len(response.content) > LARGEST:
        return None
    if response.content and "json" not in response["Content-Type"]:
        return None
    return response.content.decode()


def error_code(response: Any) -> str:
    """The code of our own errors; other answers come from outside the API, and leave it open what happened."""
    data = getattr(response, "data", None)
    if not isinstance(data, dict):
        return UNSURE[0]
    return data["error"]["code"]
