"""Lists: ?limit&cursor → {"results": […], "next": url or null}."""

from typing import Any

from rest_framework.pagination import CursorPagination
from rest_framework.response import Response


class Cursor(CursorPagination):
    """Keyset pages, so that the ten-thousandth row costs what the first does. Views may set `ordering`."""

    page_size = 50
    max_page_size = 500
    page_size_query_param = "limit"
    ordering = "-pk"

    def get_ordering(self, request: Any, queryset: Any, view: Any) -> tuple[str, ...]:
        ordering = getattr(view, "page_ordering", self.ordering)
        return (ordering,) if isinstance(ordering, str) else tuple(ordering)

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.get_next_link()})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {"results": schema, "next": {"type": ["string", "null"], "format": "uri"}},
        }
