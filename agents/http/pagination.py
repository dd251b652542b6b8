"""Lists: ?limit&cursor → {"results": […], "next": url or null}."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from rest_framework import exceptions as drf
from rest_framework.pagination import CursorPagination
from rest_framework.response import Response

from agents.exceptions import Invalid


class Cursor(CursorPagination):
    """Keyset pagination: the ten-thousandth row costs as much as the first. Views may set
    `page_ordering`.
    """

    page_size = 50
    max_page_size = 500
    page_size_query_param = "limit"
    ordering = "-pk"

    def get_ordering(self, request: Any, queryset: Any, view: Any) -> tuple[str, ...]:
        ordering = getattr(view, "page_ordering", self.ordering)
        return (ordering,) if isinstance(ordering, str) else tuple(ordering)

    def get_page_size(self, request: Any) -> int:
        """At most 500; raises Invalid unless it is a positive whole number."""
        asked = request.query_params.get(self.page_size_query_param)
        if asked is None:
            return self.page_size
        if not (asked.isascii() and asked.isdigit() and 0 < len(asked) < 10 and int(asked) > 0):
            raise Invalid("“limit” must be a whole number from 1.", code="invalid_limit")
        return min(int(asked), self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any] | None:
        """An invalid cursor is refused, not looked up."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, ValidationError, OverflowError, DataError, drf.NotFound):
            raise Invalid(
                "This cursor is not valid.", code="invalid_cursor", hint="Use the address in `next` without changes."
            )

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "maximum": 999_999_999, "default": self.page_size}
        return [
            {
                "name": "limit",
                "in": "query",
                "required": False,
                "schema": limit,
                "description": "At most 500 rows per page.",
            },
            {
                "name": "cursor",
                "in": "query",
                "required": False,
                "schema": {"type": "string"},
                "description": "From `next`.",
            },
        ]

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.get_next_link()})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {"results": schema, "next": {"type": ["string", "null"], "format": "uri"}},
        }
