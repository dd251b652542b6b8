"""The public page of an agent: the chat alone, for visitors without an account. And the script that
shows the chat on other sites.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import etag, require_safe

from agents.exceptions import NotFound
from plumbing.texts import translate

from . import visitors

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors {ancestors}"
)


@require_safe
def public_page(request: HttpRequest, key: str) -> HttpResponse:
    """Other sites may frame it if their origin is listed."""
    try:
        embed = visitors.load_open_embed(key, to_show=True)
    except NotFound as error:
        return render(request, "muster/gone.html", {"words": translate(str(error))}, status=404)
    response = render(request, "muster/visitor.html", {"embed": embed})
    response["Content-Security-Policy"] = POLICY.format(ancestors=" ".join(embed.origins) or "'none'")
    # The key is in the address, which other sites need not learn.
    response["Referrer-Policy"] = "no-referrer"
    response.xframe_options_exempt = bool(embed.origins)  # type: ignore[attr-defined]
    return response


@cache
def content() -> bytes:
    path = finders.find("muster/embed.js")
    if path is None:
        raise FileNotFoundError("static/muster/embed.js")
    return Path(path).read_bytes()


@require_safe
@etag(lambda request: f'"{sha256(content()).hexdigest()[:32]}"')
def script(request: HttpRequest) -> HttpResponse:
    """The same for everybody, under an address that never changes; any page may load it."""
    response = HttpResponse(content(), content_type="text/javascript; charset=utf-8")
    response["Cache-Control"] = "public, max-age=3600"
    response["Access-Control-Allow-Origin"] = "*"
    response["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response
