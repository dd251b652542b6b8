"""The public page of an agent: the chat alone, for visitors without an account."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.exceptions import NotFound

from . import visitors

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors {ancestors}"
)


@require_safe
def public_page(request: HttpRequest, key: str) -> HttpResponse:
    """Other sites may frame it if their origin is listed."""
    try:
        embed = visitors.opened(key)
    except NotFound as error:
        raise Http404(str(error))
    response = render(request, "muster/visitor.html", {"embed": embed})
    response["Content-Security-Policy"] = POLICY.format(ancestors=" ".join(embed.origins) or "'none'")
    response["Referrer-Policy"] = "no-referrer"  # the key is in the address
    response.xframe_options_exempt = bool(embed.origins)  # type: ignore[attr-defined]
    return response
