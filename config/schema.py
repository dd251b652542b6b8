"""The OpenAPI document, built once per process: building takes a second, and two concurrent builds
would fail.
"""

import threading
from typing import Any

from django.conf import settings
from django.utils import translation
from drf_spectacular.views import SpectacularAPIView
from rest_framework.response import Response

ANY_OR_NULL = [{}, {"type": "null"}]
IDS = ("id", "delivery", "hook")
LOCK = threading.Lock()
made: dict[str, Any] = {}


class SchemaView(SpectacularAPIView):
    """/api/schema/ as YAML or JSON. The same for every user."""

    def _get_schema_response(self, request: Any) -> Response:
        with LOCK:
            if "schema" not in made:
                with translation.override(settings.LANGUAGE_CODE):  # whatever the first reader asks for
                    made["schema"] = super()._get_schema_response(request).data
        headers = {"Content-Disposition": f'inline; filename="{self._get_filename(request, "v1")}"'}
        return Response(made["schema"], headers=headers)


def any_value(result: Any, **_: Any) -> Any:
    """A nullable JSON field is any value: “one of anything or null” would refuse null, which
    matches both.
    """
    if isinstance(result, dict):
        kept = {key: value for key, value in result.items() if not (key == "oneOf" and value == ANY_OR_NULL)}
        return {key: any_value(value) for key, value in kept.items()}
    return [any_value(one) for one in result] if isinstance(result, list) else result


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
