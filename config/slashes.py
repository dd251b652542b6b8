"""Lists have a trailing slash in the contract and single objects do not; the other spelling is
accepted too.
"""

from typing import Any

from django.http import HttpRequest, JsonResponse
from django.urls import Resolver404, resolve
from django.views.decorators.csrf import csrf_exempt


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
    error: dict[str, Any] = {
        "code": "not_found",
        "message": f"There is nothing at {request.path_info}.",
        "hint": "/api/docs/ lists every path.",
        "details": [],
        "request_id": getattr(request, "request_id", ""),
    }
    return JsonResponse({"error": error}, status=404)
