"""Lists: ?limit&cursor&ordering → {"results": […], "next": url or null}."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from rest_framework import exceptions as drf
from rest_framework.pagination import CursorPagination
from rest_framework.response import Response

from agents.exceptions import Invalid

from .filters import orderings_of


class Cursor(CursorPagination):
    """Keyset pagination: the ten-thousandth row costs as much as the first. Views may set
    `page_ordering`, and what a client may order their list by, `orderings = ("name", "created_at")`:
    columns that are never null.
    """

    page_size = 50
    max_page_size = 500
    page_size_query_param = "limit"
    ordering = "-pk"

    def get_ordering(self, request: Any, queryset: Any, view: Any) -> tuple[str, ...]:
        text = request.query_params.get("ordering")
        if text is not None:
            return ordered_by(text, orderings_of(view))
        ordering = getattr(view, "page_ordering", self.ordering)
        return (ordering,) if isinstance(ordering, str) else tuple(ordering)

    def get_page_size(self, request: Any) -> int:
        """At most 500; raises Invalid unless it is a positive whole number."""
        text = request.query_params.get(self.page_size_query_param)
        if text is None:
            return self.page_size
        if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) > 0):
            raise Invalid("“limit” must be a whole number from 1.", code="invalid_limit")
        return min(int(text), self.max_page_size)

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
            *([ordering_parameter(orderings)] if (orderings := orderings_of(view)) else []),
        ]

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.get_next_link()})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {"results": schema, "next": {"type": ["string", "null"], "format": "uri"}},
        }


def ordered_by(ordering: str, orderings: tuple[str, ...]) -> tuple[str, str]:
    """The column and, for rows that are equal in it, their key. Raises Invalid."""
    if ordering.removeprefix("-") not in orderings:
        hint = f"Send one of {', '.join(orderings)}, with - before it for descending." if orderings else ""
        raise Invalid("This list cannot be ordered by that.", code="invalid_ordering", hint=hint)
    return ordering, "-pk" if ordering.startswith("-") else "pk"


def ordering_parameter(orderings: tuple[str, ...]) -> dict[str, Any]:
    names = [sign + name for name in orderings for sign in ("", "-")]
    return {
        "name": "ordering",
        "in": "query",
        "schema": {"type": "string", "enum": names},
        "description": "`-` before the name: descending.",
    }
