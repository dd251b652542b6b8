"""Adds to the OpenAPI document what drf-spectacular cannot see: common error answers and the key
scheme.
"""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers


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


class Schema(AutoSchema):
    """Adds every possible 4xx to each operation, even if `extend_schema` lists its own responses."""

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies = super()._get_response_bodies(direction)
        for status in self.error_statuses():
            if str(status) not in bodies:
                bodies[str(status)] = self._get_response_for_code(ErrorSerializer, str(status), direction=direction)
        return dict(sorted(bodies.items()))

    def get_filter_backends(self) -> list[Any]:
        """Filters apply to the list itself, not to lists within its rows."""
        return super().get_filter_backends() if getattr(self.view, "action", "list") == "list" else []

    def error_statuses(self) -> list[int]:
        statuses = [400, 401, 403, 404, 406, 422, 429]
        if self.method in ("POST", "PUT", "PATCH", "DELETE"):
            statuses += [409]
        if self.method in ("POST", "PUT", "PATCH"):
            statuses += [413, 415, 503]
        return statuses
