"""Adds to the OpenAPI document what drf-spectacular cannot see: common error answers and the key
scheme.
"""

import re
from http import HTTPStatus
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from .idempotency import API, remembers_keys
from .resources import CHANGES, SHOWN

LOCATION = OpenApiParameter(
    "Location", str, OpenApiParameter.HEADER, response=[201, 202], description="Where to read what was created."
)
ETAG = OpenApiParameter(
    "ETag", str, OpenApiParameter.HEADER, response=[200, 201], description="The version of the row, for `If-Match`."
)
IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="The ETag that was read: 412 if the row has changed since."
)

IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="For 24 hours, a request with the same key and body gets the answer of the first, with the header "
    "`Idempotent-Replayed`, and is not carried out again.",
)
OWNER = OpenApiParameter(
    "owner",
    str,
    description="If you see several rows with this name: the username of the owner of the one that you mean, empty "
    "for the site's. Without it, the name means your own before the site's, and the site's before a team's.",
)


class ErrorBodySerializer(serializers.Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)
    details = serializers.ListField(child=serializers.JSONField())
    request_id = serializers.CharField(allow_blank=True)


class ErrorSerializer(serializers.Serializer):
    error = ErrorBodySerializer()


class ApiKeyScheme(OpenApiAuthenticationExtension):
    target_class = "agents.http.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer mk_….…`"}


def stream_schema(data: str) -> dict[str, Any]:
    """Server-sent events whose `data` is JSON of the component `data`.

    OpenAPI 3.1 has no keyword for the items of a stream: the body is a text, and `x-itemSchema` has
    the form of `itemSchema` in OpenAPI 3.2.
    """
    content = {"$ref": f"#/components/schemas/{data}"}
    item = {
        "type": "object",
        "required": ["data"],
        "properties": {
            "id": {"type": "string", "description": "The event's number; send it as `Last-Event-ID` to resume."},
            "event": {"type": "string", "description": "The event's type."},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": content},
        },
    }
    return {"type": "string", "description": "Server-sent events.", "x-itemSchema": item}


class Schema(AutoSchema):
    """Adds every possible 4xx to each operation, even if `extend_schema` lists its own responses."""

    def get_operation_id(self) -> str:
        """The words of the path and a verb: `agents_list`, `runs_retrieve`; at the path of an action,
        which ends in its name, without a verb: `agents_publish`.
        """
        if self.path.endswith(("/", "}")) or self._is_list_view():
            return super().get_operation_id()
        return re.sub(r"\W", "_", "_".join(self._tokenize_path()))

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies = super()._get_response_bodies(direction)
        for status in map(str, self.error_statuses()):
            if status not in bodies:
                bodies[status] = self._get_response_for_code(ErrorSerializer, status, direction=direction)
        for status, body in bodies.items():
            body["description"] = body["description"] or HTTPStatus(int(status)).phrase
        return dict(sorted(bodies.items()))

    def get_filter_backends(self) -> list[Any]:
        """Filters apply to the list itself, not to lists within its rows."""
        if getattr(self.view, "action", "list") != "list":
            return []
        return super().get_filter_backends()

    def get_override_parameters(self) -> list[Any]:
        """`?owner=` after a name, and the headers of rows: `Location`, `ETag` and `If-Match`."""
        own = super().get_override_parameters()
        parameters = [*own]
        if getattr(self.view, "by_owner", False) and "{name}" in self.path:
            parameters.append(OWNER)
        if self.method == "POST":
            parameters.append(LOCATION)
            if self.remembers_keys(own):
                parameters.append(IDEMPOTENCY)
        if getattr(self.view, "has_etag", False) and getattr(self.view, "action", "") in SHOWN:
            parameters.append(ETAG)
        if self.takes_if_match():
            parameters.append(IF_MATCH)
        return parameters

    def remembers_keys(self, parameters: list[Any]) -> bool:
        if not self.path.startswith(API) or not remembers_keys(self.view):
            return False
        # A view may describe the header itself.
        return IDEMPOTENCY.name not in [parameter.name for parameter in parameters]

    def takes_if_match(self) -> bool:
        if not getattr(self.view, "has_etag", False):
            return False
        conditional_actions = getattr(self.view, "conditional", ())
        return self.method in CHANGES or getattr(self.view, "action", "") in conditional_actions

    def _get_pagination_parameters(self) -> list[dict[str, Any]]:
        """A PUT that answers with a list shows its first page."""
        if self.method != "GET":
            return []
        return super()._get_pagination_parameters()

    def error_statuses(self) -> list[int]:
        statuses = [400, 401, 403, 404, 406, 422, 429]
        if self.method in ("POST", "PUT", "PATCH", "DELETE"):
            statuses += [409]
        if self.takes_if_match():
            statuses += [412]
        if self.method in ("POST", "PUT", "PATCH"):
            statuses += [413, 415, 503]
        return statuses
