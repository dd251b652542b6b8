"""Lists have a trailing slash in the contract and single objects do not; the other spelling is
accepted too. Programs get an unknown path as JSON, people as a page.
"""

from typing import Any

from django.core.exceptions import BadRequest, DisallowedHost
from django.http import HttpRequest, JsonResponse
from django.urls import Resolver404, resolve
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt

FOR_PROGRAMS = ("/api/", "/v1/", "/mcp/", "/a2a/", "/agui/", "/.well-known/")


def page_not_found(request: HttpRequest, exception: Exception) -> Any:
    """The site's `handler404`. OpenAI's clients read the same members of an error as ours."""
    if request.path_info.startswith(FOR_PROGRAMS):
        return not_found(request)
    return defaults.page_not_found(request, exception)


def bad_request(request: HttpRequest, exception: Exception) -> Any:
    """The site's `handler400`: what Django or a middleware refuses before a view is found."""
    if not request.path_info.startswith(FOR_PROGRAMS):
        return defaults.bad_request(request, exception)
    if isinstance(exception, DisallowedHost):
        message = "The Host header names a host that this site does not serve."
        return error_json(request, 400, "malformed", message, "Administrators list its hosts in ALLOWED_HOSTS.")
    message = str(exception) if isinstance(exception, BadRequest) else "The request cannot be read."
    return error_json(request, 400, "malformed", message, "Check its headers and parameters.")


@csrf_exempt  # the view that answers makes its own checks, as every API view does
def other_spelling(request: HttpRequest, rest: str) -> Any:
    """Last pattern below /api/v1/: the same path with or without its slash, else 404 in the API's
    error format.
    """
    path = request.path_info
    try:
        match = resolve(path[:-1] if path.endswith("/") else f"{path}/")
    except Resolver404:
        return not_found(request)
    if match.func is other_spelling:
        return not_found(request)
    request.resolver_match = match
    return match.func(request, *match.args, **match.kwargs)


def not_found(request: HttpRequest) -> JsonResponse:
    message = f"There is nothing at {request.path_info}."
    return error_json(request, 404, "not_found", message, "/api/docs/ lists every path.")


def error_json(request: HttpRequest, status: int, code: str, message: str, hint: str) -> JsonResponse:
    error: dict[str, Any] = {
        "code": code,
        "message": message,
        "hint": hint,
        "details": [],
        "request_id": getattr(request, "request_id", ""),
    }
    return JsonResponse({"error": error}, status=status)
