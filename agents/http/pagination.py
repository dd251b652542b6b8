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
RELATED_AT_ONCE = 64


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
        """The rows of the page after the cursor, or of the first page. Raises Invalid for an invalid cursor."""
        self.request = request
        self.base_url = request.build_absolute_uri()
        size = self.get_page_size(request)
        ordering = self.get_ordering(request, queryset, view)
        rows = queryset.order_by(*ordering)
        cursor = request.query_params.get(self.cursor_query_param)
        try:
            if cursor is not None:
                place = read_cursor(cursor, len(ordering))
                rows = rows.filter(build_place_filter(ordering, place))
            page, has_more = read_page(rows, size)
        except (ValueError, ValidationError, OverflowError, RecursionError, DataError):
            if cursor is None:
                raise
            # The cursor is to blame: a value in it that does not fit its column fails only in the database.
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
        text = {"type": "string"}
        fields_help = "Names with commas between them: only these fields, and each of them whole."
        parameters = [
            query_parameter("limit", limit, "At most 500 rows per page."),
            query_parameter("cursor", text, "From `next`."),
            query_parameter(FIELDS, text, fields_help),
        ]
        orderings = find_orderings(view)
        if orderings:
            parameters.append(ordering_parameter(orderings))
        return parameters

    def get_paginated_response(self, data: Any) -> Response:
        names = self.request.query_params.get(FIELDS)
        if names is None:
            rows = [cut_fields(row) for row in data]
        else:
            rows = [choose_fields(row, names) for row in data]
        return Response({"results": rows, "next": self.get_next_link()})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {"results": schema, "next": {"type": ["string", "null"], "format": "uri"}},
        }


def read_page(rows: Any, size: int, start: int = 0) -> tuple[list[Any], bool]:
    """The rows of a page, and whether others follow. A page ends at `size` rows or at a number of bytes.

    Rows are read a few at a time, so that those for which the page has no room stay in the database.
    """
    if size == 0:
        return [], rows[start : start + 1].exists()
    related = rows._prefetch_related_lookups
    with open_cursor_scope():
        stored_rows = rows.prefetch_related(None)[start : start + size + 1].iterator(chunk_size=ROWS_AT_ONCE)
        whole_rows = prefetch_in_blocks(stored_rows, related)
        page = list(within_page(islice(whole_rows, size)))
        has_more = next(whole_rows, None) is not None
        stored_rows.close()
    return page, has_more


def prefetch_in_blocks(rows: Iterator[Any], related: Sequence[Any]) -> Iterator[Any]:
    """The rows, in blocks for which related rows are prefetched together.

    A block has up to 64 rows, so that a usual page takes the same number of queries however many rows it has. A
    block of large rows is shorter.
    """
    if not related:
        yield from rows
        return
    while block := list(islice(within_page(rows), RELATED_AT_ONCE)):
        prefetch_related_objects(block, *related)
        yield from block


def open_cursor_scope() -> Any:
    """A transaction on PostgreSQL; on other databases nothing.

    PostgreSQL reads a few rows at a time only inside a transaction: outside of one it copies the whole result first,
    and a pooler may answer from another connection. SQLite needs none, and would lock its file for writing.
    """
    return transaction.atomic(savepoint=False) if connection.vendor == "postgresql" else nullcontext()


def choose_fields(row: Any, fields: str) -> Any:
    """Only these fields of a row. Raises Invalid for a field that the row does not have."""
    chosen = {}
    for name in fields.split(","):
        if name not in row:
            raise Invalid(
                f"The rows of this list have no field “{name[:80]}”.",
                code="invalid_fields",
                hint=f"Send some of {', '.join(row)}.",
            )
        chosen[name] = row[name]
    return chosen


def write_cursor(row: Any, ordering: tuple[str, ...]) -> str:
    """The cursor that points at a row: its values in the columns that order the list."""
    columns = [column.removeprefix("-") for column in ordering]
    place = json.dumps([str(getattr(row, column)) for column in columns])
    return urlsafe_b64encode(place.encode()).decode()


def read_cursor(cursor: str, length: int) -> list[str]:
    """The values that `write_cursor` put into a cursor. Raises ValueError."""
    place = json.loads(urlsafe_b64decode(cursor.encode("ascii")))
    if not isinstance(place, list) or len(place) != length:
        raise ValueError(cursor)
    if not all(isinstance(value, str) for value in place):
        raise ValueError(cursor)
    return place


def build_place_filter(ordering: tuple[str, ...], place: list[str]) -> Q:
    """The condition of the rows after this place: further in the first column, or equal in it and further in the rest.

    Many rows may be equal in the first column; the last one is unique. The condition is in a form that lets the
    database use an index of the first column.
    """
    first_ordering, *other_orderings = ordering
    first_value, *other_values = place
    column = first_ordering.removeprefix("-")
    lookup = "lt" if first_ordering.startswith("-") else "gt"
    after = Q(**{f"{column}__{lookup}": first_value})
    if not other_orderings:
        return after
    not_before = Q(**{f"{column}__{lookup}e": first_value})
    return not_before & (after | build_place_filter(tuple(other_orderings), other_values))


def read_ordering(ordering: str, allowed_columns: tuple[str, ...]) -> tuple[str, str]:
    """The requested column and, for rows that are equal in it, their key. Raises Invalid."""
    if ordering.removeprefix("-") not in allowed_columns:
        hint = ""
        if allowed_columns:
            hint = f"Send one of {', '.join(allowed_columns)}, with - before it for descending."
        raise Invalid("This list cannot be ordered by that.", code="invalid_ordering", hint=hint)
    return ordering, "-pk" if ordering.startswith("-") else "pk"


def ordering_parameter(orderings: tuple[str, ...]) -> dict[str, Any]:
    names: list[str] = []
    for name in orderings:
        names += [name, f"-{name}"]
    return {
        "name": "ordering",
        "in": "query",
        "schema": {"type": "string", "enum": names},
        "description": "`-` before the name: descending.",
    }


def query_parameter(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}
