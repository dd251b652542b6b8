"""Lists: ?limit&cursor&ordering → {"results": […], "next": url or null}."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError, connection, transaction
from django.db.models import Q, prefetch_related_objects
from rest_framework.pagination import CursorPagination
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from agents.exceptions import Invalid

from .filters import find_orderings
from .sizes import cut_fields, within_page

FIELDS = "fields"
ROWS_AT_ONCE = 16


class Cursor(CursorPagination):
    """Keyset pagination: the ten-thousandth row costs as much as the first. Views may set
    `page_ordering`, and what a client may order their list by, `orderings = ("name", "created_at")`:
    columns that are never null.

    REST framework's own cursor counts the rows that are equal in the first column, and only to 1000.
    """

    page_size = 50
    max_page_size = 500
    page_size_query_param = "limit"
    ordering = "-pk"

    def get_ordering(self, request: Any, queryset: Any, view: Any) -> tuple[str, ...]:
        text = request.query_params.get("ordering")
        if text is not None:
            return read_ordering(text, find_orderings(view))
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

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        """An invalid cursor is refused, not looked up."""
        self.request = request
        self.base_url = request.build_absolute_uri()
        size, ordering = self.get_page_size(request), self.get_ordering(request, queryset, view)
        rows = queryset.order_by(*ordering)
        if (cursor := request.query_params.get(self.cursor_query_param)) is None:
            page, has_more = read_page(rows, size)
        else:
            try:
                page, has_more = read_page(rows.filter(beyond(ordering, read_cursor(cursor, len(ordering)))), size)
            except (ValueError, ValidationError, OverflowError, RecursionError, DataError):
                raise Invalid(
                    "This cursor is not valid.",
                    code="invalid_cursor",
                    hint="Use the address in `next` without changes.",
                )
        self.following = write_cursor(page[-1], ordering) if has_more else None
        return page

    def get_next_link(self) -> str | None:
        if self.following is None:
            return None
        return replace_query_param(self.base_url, self.cursor_query_param, self.following)

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
            {
                "name": FIELDS,
                "in": "query",
                "required": False,
                "schema": {"type": "string"},
                "description": "Names with commas between them: only these fields, and each of them whole.",
            },
            *([ordering_parameter(orderings)] if (orderings := find_orderings(view)) else []),
        ]

    def get_paginated_response(self, data: Any) -> Response:
        names = self.request.query_params.get(FIELDS)
        rows = [cut_fields(row) for row in data] if names is None else [choose_fields(row, names) for row in data]
        return Response({"results": rows, "next": self.get_next_link()})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {"results": schema, "next": {"type": ["string", "null"], "format": "uri"}},
        }


def read_page(rows: Any, size: int, start: int = 0) -> tuple[list[Any], bool]:
    """The rows of a page, which ends at `size` rows or at a number of bytes, and whether others follow. Rows are read a
    few at a time: those that the page has no room for stay in the database.
    """
    if size == 0:
        return [], rows[start : start + 1].exists()
    related = rows._prefetch_related_lookups
    with cursor_scope():
        stored_rows = rows.prefetch_related(None)[start : start + size + 1].iterator(chunk_size=ROWS_AT_ONCE)
        whole_rows = with_related(stored_rows, related)
        page = list(within_page(islice(whole_rows, size)))
        has_more = next(whole_rows, None) is not None
        stored_rows.close()
    return page, has_more


def with_related(rows: Iterator[Any], related: Sequence[Any]) -> Iterator[Any]:
    """Rows with the rows that belong to them, read a few at a time."""
    if not related:
        yield from rows
        return
    while block := list(islice(rows, ROWS_AT_ONCE)):
        prefetch_related_objects(block, *related)
        yield from block


def cursor_scope() -> Any:
    """PostgreSQL reads a few rows at a time only inside a transaction: outside of one it copies the whole result first,
    and a pooler may answer from another connection. SQLite needs none, and would lock its file for writing.
    """
    return transaction.atomic(savepoint=False) if connection.vendor == "postgresql" else nullcontext()


def choose_fields(row: Any, fields: str) -> Any:
    """Raises Invalid for a field that the row does not have."""
    names = fields.split(",")
    if unknown := [name for name in names if name not in row]:
        raise Invalid(
            f"The rows of this list have no field “{unknown[0][:80]}”.",
            code="invalid_fields",
            hint=f"Send some of {', '.join(row)}.",
        )
    return {name: row[name] for name in names}


def write_cursor(row: Any, ordering: tuple[str, ...]) -> str:
    """The place of a row in the list: its values in the columns that order it."""
    place = json.dumps([str(getattr(row, column.removeprefix("-"))) for column in ordering])
    return urlsafe_b64encode(place.encode()).decode()


def read_cursor(cursor: str, length: int) -> list[str]:
    """Raises ValueError."""
    place = json.loads(urlsafe_b64decode(cursor.encode("ascii")))
    if not (isinstance(place, list) and len(place) == length and all(isinstance(value, str) for value in place)):
        raise ValueError(cursor)
    return place


def beyond(ordering: tuple[str, ...], place: list[str]) -> Q:
    """The rows after this place. Many rows may be equal in the first column; the last one is unique.

    The first condition alone would do for one column; for two it lets the database use an index of the first.
    """
    (first, *rest), (value, *values) = ordering, place
    column, way = first.removeprefix("-"), "lt" if first.startswith("-") else "gt"
    after = Q(**{f"{column}__{way}": value})
    return Q(**{f"{column}__{way}e": value}) & (after | beyond(tuple(rest), values)) if rest else after


def read_ordering(ordering: str, orderings: tuple[str, ...]) -> tuple[str, str]:
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
