"""Middleware: an id, metrics, and security headers for every request; Django's for pages, not for programs."""

import logging
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import translation

from agents.http.deferred_response import Later
from agents.http.sessions import note_use
from agents.models import Preference
from plumbing import tracing
from plumbing.texts import find_language
from plumbing.untrusted import parse_in_child
from runs.models.figures import metrics

log = logging.getLogger("muster.request")
Answer = Callable[[HttpRequest], HttpResponseBase]
RATE = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")

# Our own pages: everything from this server, nothing inline.
STRICT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The API docs start with an inline script.
BORROWED = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'self'; object-src 'none'; frame-ancestors 'none'"
)
IN_ENGLISH = ("/api/", "/v1/", "/langgraph/", "/mcp", "/a2a/", "/agui/", "/oauth/", "/.well-known/", "/healthz",
              "/readyz", "/metrics", "/static/", "/embed/", "/approvals/count")  # fmt: skip
API = "/api/v1/"
FOR_PROGRAMS = (API, "/v1/", "/langgraph/", "/mcp", "/a2a/", "/agui/")
SECRETS = frozenset({"token", "key"})  # parts of addresses that open something by themselves
BORROWED_PAGES = ("/api/docs/",)


def request_id(answer: Answer) -> Answer:
    """`X-Request-ID` as received, or a new one; included in every log line and error."""

    def with_id(request: HttpRequest) -> HttpResponseBase:
        header = request.headers.get("X-Request-ID", "")
        id = header if GIVEN_ID.fullmatch(header) else uuid.uuid4().hex
        parse_in_child.person.set(None)  # the thread served another request before
        tracing.PARENT.set(tracing.valid_header(request.headers.get("traceparent", "")))
        request.request_id = id  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=id)
        response = answer(request)
        response["X-Request-ID"] = id
        return response

    return with_id


def valid_headers(answer: Answer) -> Answer:
    """Refuses a header with a NUL character, which HTTP forbids and PostgreSQL cannot store."""

    def checked(request: HttpRequest) -> HttpResponseBase:
        for name, value in request.headers.items():
            if "\x00" in value:
                raise BadRequest(f"The header {name} contains a NUL character.")
        return answer(request)

    return checked


def observation(answer: Answer) -> Answer:
    """Count and time each request by its route, never by its path: the number of paths is
    unbounded.
    """

    def observed(request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        response = answer(request)
        if isinstance(response, Later):
            response.observers.append(lambda answer: observe(request, answer, began))
        else:
            observe(request, response, began)
        return response

    return observed


def observe(request: HttpRequest, response: HttpResponseBase, began: float) -> None:
    seconds = time.perf_counter() - began
    match = request.resolver_match
    route = match.route if match else "unknown"
    metrics.observe_request(request.method or "", route, response.status_code, seconds)
    if settings.LOG_REQUESTS:
        log.info("%s %s %d %.1f ms", request.method, logged_path(request), response.status_code, seconds * 1000)


def logged_path(request: HttpRequest) -> str:
    """The path; of an address that contains a secret, its route."""
    match = request.resolver_match
    has_secret = match is not None and bool(SECRETS & match.kwargs.keys())
    return f"/{match.route}" if match and has_secret else request.path


def content_policy(answer: Answer) -> Answer:
    def with_policy(request: HttpRequest) -> HttpResponseBase:
        response = answer(request)
        borrowed = request.path_info.startswith(BORROWED_PAGES)
        response.headers.setdefault("Content-Security-Policy", BORROWED if borrowed else STRICT)
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
        response.headers.setdefault("Cache-Control", "no-store")  # static files, which are nobody's, bring their own
        return response

    return with_policy


def language(answer: Answer) -> Answer:
    """Pages in the language that the person chose, else the browser's. Errors of the API are in the language of the
    header `Accept-Language`, and in English without one. Other protocols are in English.
    """

    def spoken(request: HttpRequest) -> HttpResponseBase:
        chosen = choose_language(request)
        request.LANGUAGE_CODE = chosen  # type: ignore[attr-defined]
        if chosen == translation.get_language():  # English, for most programs
            return answer(request)
        with translation.override(chosen):
            return answer(request)

    return spoken


def choose_language(request: HttpRequest) -> str:
    if request.path_info.startswith(API):
        return find_language(request.headers.get("Accept-Language", ""))
    if request.path_info.startswith(IN_ENGLISH):
        return settings.LANGUAGE_CODE
    if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
        note_use(request)
        request.preference = Preference.of(request.user)  # type: ignore[attr-defined]
        if request.preference.language:  # type: ignore[attr-defined]
            return request.preference.language  # type: ignore[attr-defined]
    return translation.get_language_from_request(request)


def rate_headers(answer: Answer) -> Answer:
    """`RateLimit-Limit`, `-Remaining` and `-Reset` (requests, requests, seconds) of the limit that is nearest."""

    def with_rate(request: HttpRequest) -> HttpResponseBase:
        response = answer(request)
        for name, number in zip(RATE, getattr(request, "rate", ()), strict=False):
            response[name] = str(number)
        return response

    return with_rate


def for_pages(middleware: type) -> type:
    """A subclass that does nothing for a request to an API that has no cookie.

    Such a request has no login session, and no form can be forged with it. A request with a cookie passes through the
    middleware wherever it goes.
    """

    def call(self: Any, request: HttpRequest) -> HttpResponseBase:
        if not request.META.get("HTTP_COOKIE") and request.path_info.startswith(FOR_PROGRAMS):
            return self.get_response(request)
        return middleware.__call__(self, request)

    return type(middleware.__name__, (middleware,), {"__call__": call, "__doc__": middleware.__doc__})


Sessions = for_pages(SessionMiddleware)
Csrf = for_pages(CsrfViewMiddleware)
Authentication = for_pages(AuthenticationMiddleware)
Messages = for_pages(MessageMiddleware)
