"""The OpenAPI document, rendered once per process: rendering takes more than a second of CPU, and anybody may ask for
it.
"""

import gzip
import threading
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext_noop as _
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView

from agents.exceptions import Unavailable
from agents.http.sizes import TRUNCATED

ANY_OR_NULL = [{}, {"type": "null"}]
CUT_NAMES = {
    "type": "array",
    "items": {"type": "string"},
    "readOnly": True,
    "description": "In a list: the fields of which this is only the beginning. `?fields=` gives them whole.",
}
IDS = ("id", "delivery", "hook")
RENDERERS = (OpenApiYamlRenderer(), OpenApiJsonRenderer())
WAITERS = 8  # requests that may wait for the first rendering; each of them holds a thread of the web process


@dataclass(frozen=True, slots=True)
class Document:
    """One representation: its bytes and their tag."""

    body: bytes
    etag: str


class Documents:
    """The representations by format and whether they are compressed. The first request renders them all."""

    def __init__(self) -> None:
        self.rendered: dict[tuple[str, bool], Document] = {}
        self.lock = threading.Lock()
        self.places = threading.BoundedSemaphore(WAITERS)

    def get(self, format: str, is_compressed: bool) -> Document:
        """Raises Unavailable when many wait already."""
        if not self.rendered:
            self.render_first()
        return self.rendered[format, is_compressed]

    def render_first(self) -> None:
        if not self.places.acquire(blocking=False):
            raise Unavailable(hint=_("Try again in a few seconds."), headers={"Retry-After": "3"})
        try:
            with self.lock:
                if not self.rendered:
                    self.rendered = render_documents()
        finally:
            self.places.release()


def render_documents() -> dict[tuple[str, bool], Document]:
    rendered = {}
    with translation.override(settings.LANGUAGE_CODE):  # whatever the first reader asks for
        schema = SchemaGenerator().get_schema(request=None, public=True)
        for renderer in RENDERERS:
            text = renderer.render(schema, renderer_context={})
            rendered[renderer.format, False] = make_document(text)
            rendered[renderer.format, True] = make_document(gzip.compress(text, mtime=0))
    return rendered


def make_document(body: bytes) -> Document:
    return Document(body, f'"{sha256(body).hexdigest()[:32]}"')


documents = Documents()


class SchemaView(SpectacularAPIView):
    """/api/schema/ as YAML or JSON. The same for every user."""

    @extend_schema(exclude=True)
    def get(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        is_compressed = accepts_gzip(request.headers.get("Accept-Encoding", ""))
        document = documents.get(request.accepted_renderer.format, is_compressed)
        # `If-None-Match` is looked at before the body is copied into an answer.
        response = get_conditional_response(request, etag=document.etag, response=HttpResponse())
        if response.status_code == 200:
            response = self.respond(request, document, is_compressed)
        response.headers["ETag"] = document.etag
        response.headers["Cache-Control"] = "no-cache"  # may be kept, and asked about with its tag
        return response

    def respond(self, request: Any, document: Document, is_compressed: bool) -> HttpResponse:
        name = self._get_filename(request, "v1")
        response = HttpResponse(document.body, content_type=request.accepted_media_type)
        response.headers["Content-Disposition"] = f'inline; filename="{name}"'
        if is_compressed:
            response.headers["Content-Encoding"] = "gzip"
        return response

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        finished = super().finalize_response(request, response, *args, **kwargs)
        finished.headers["Vary"] = "Accept, Accept-Encoding"
        return finished


def accepts_gzip(header: str) -> bool:
    """Whether `Accept-Encoding` names gzip, and not with `q=0`."""
    for one in header.lower().split(","):
        coding, _, weight = one.replace(" ", "").partition(";q=")
        if coding == "gzip":
            return weight.strip("0.") != "" or weight == ""
    return False


def any_value(result: Any, **_: Any) -> Any:
    """A nullable JSON field is any value: “one of anything or null” would refuse null, which
    matches both.
    """
    if isinstance(result, list):
        return [any_value(one) for one in result]
    if not isinstance(result, dict):
        return result
    if result.get("oneOf") == ANY_OR_NULL:
        result = {key: value for key, value in result.items() if key != "oneOf"}
    return {key: any_value(value) for key, value in result.items()}


def empty_or_address(result: Any, **_: Any) -> Any:
    """A text that may be empty or an address: “exactly one of” would refuse the empty text, which
    validators without a check of formats read as both.
    """
    if isinstance(result, list):
        return [empty_or_address(one) for one in result]
    if not isinstance(result, dict):
        return result
    if {"type": "string", "maxLength": 0} in (result.get("oneOf") or ()):
        result = {("anyOf" if key == "oneOf" else key): value for key, value in result.items()}
    return {key: empty_or_address(value) for key, value in result.items()}


def opaque_ids(result: Any, **_: Any) -> Any:
    """An id is a string without a format, in paths too: clients must not depend on what it looks like."""
    if isinstance(result, list):
        return [opaque_ids(one) for one in result]
    if not isinstance(result, dict):
        return result
    if result.get("in") == "path" and result["name"] in IDS:
        result = {**result, "schema": {"type": "string"}}
    return {key: opaque_ids(value) for key, value in result.items() if (key, value) != ("format", "uuid")}


def rows_of_lists(result: Any, **_: Any) -> Any:
    """A row of a list may have large fields cut; it then names them in `truncated`."""
    schemas = result.get("components", {}).get("schemas", {})
    pages = [one for name, one in schemas.items() if name.startswith("Paginated")]
    for page in pages:
        reference = page["properties"]["results"]["items"].get("$ref", "")
        row = schemas.get(reference.rpartition("/")[2], {})
        if "properties" in row:
            row["properties"][TRUNCATED] = CUT_NAMES
    return result
