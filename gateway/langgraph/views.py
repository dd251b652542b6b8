"""What the endpoints of the LangGraph API share: keys, errors in its form, fields of bodies."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTransform
from drf_spectacular.utils import extend_schema
from rest_framework.authentication import SessionAuthentication
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound
from agents.http.authentication import ApiKeyAuthentication
from agents.http.pagination import read_page
from agents.http.viewsets import APIView
from agents.models import ApiKey

JSON = Any
# Where config/urls.py mounts these endpoints.
BASE = "/langgraph"
# The offset of the following page: an answer may be shorter than its limit.
NEXT_OFFSET = "X-Pagination-Next"
# Rows in one answer.
MOST = 1000
# Keys of metadata that a search compares.
MOST_KEYS = 50
# What a field of a type must be, in words.
KINDS = {str: "text", int: "a whole number", dict: "an object", list: "a list", bool: "true or false"}


class HeaderAuthentication(ApiKeyAuthentication):
    """`x-api-key: mk_….…`, as LangGraph's SDKs send it; a bearer token is accepted too."""

    def authenticate(self, request: Any) -> tuple[Any, ApiKey] | None:
        key = request.headers.get("x-api-key")
        if key and "Authorization" not in request.headers:
            return self.checked(key.strip())
        return super().authenticate(request)


@extend_schema(exclude=True)
class LangGraphView(APIView):
    """Errors are {"detail", "code", "errors"}, which LangGraph's SDKs read."""

    authentication_classes = [HeaderAuthentication, SessionAuthentication]
    scope: str | None = "messages"

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        handle = super().get_exception_handler()

        def in_their_form(error: Exception, context: dict[str, Any]) -> Response:
            response = handle(error, context)
            problem = response.data["error"]
            text = " ".join(filter(None, [problem["message"], problem.get("hint")]))
            response.data = {"detail": text, "code": problem["code"], "errors": problem["details"]}
            return response

        return in_their_form


class OkView(LangGraphView):
    """GET /ok"""

    permission_classes = []
    parameters = {"get": None}

    def get(self, request: Any) -> Response:
        return Response({"ok": True})


class InfoView(LangGraphView):
    """GET /info: what clients ask before they connect. A key that is not good is refused here too."""

    permission_classes = []
    parameters = {"get": None}

    def get(self, request: Any) -> Response:
        flags = {"assistants": True, "crons": True, "langsmith": False, "langsmith_tracing_replicas": False}
        return Response({"version": "muster", "flags": flags, "host": {"kind": "muster"}})


class UnknownView(LangGraphView):
    """Paths of the LangGraph API that Muster does not have."""

    parameters = dict.fromkeys(["get", "post", "put", "patch", "delete"], None)

    def get(self, request: Any, rest: str) -> Response:
        message = f"{request.method} /{rest[:100]} is not part of what Muster offers of the LangGraph API."
        raise NotFound(message, code="not_supported", hint="docs/howto/langgraph.md lists what is there.")

    post = put = patch = delete = get


# -- fields of a body -----------------------------------------------------------------------------------------------


def refuse_langgraph_field(field: str, message: str, code: str = "invalid_value") -> Invalid:
    """The refusal of a request whose field is wrong."""
    detail = {"field": field, "code": code, "message": message}
    return Invalid(message, code=code, details=[detail])


def parse_langgraph_fields(
    body: JSON, names: Iterable[str], neutral: Mapping[str, tuple[JSON, ...]] | None = None
) -> dict[str, Any]:
    """The body without absent values. Raises Invalid for a field that is unknown, and for one that Muster does not
    have unless its value changes nothing (`neutral`).
    """
    if not isinstance(body, dict):
        raise refuse_langgraph_field("", "The body must be an object.")
    names = set(names)
    neutral = neutral or {}
    fields = {}
    for name, value in body.items():
        if name in names:
            if value is not None:
                fields[name] = value
            continue
        if name not in neutral:
            raise refuse_langgraph_field(name[:80], f"There is no field “{name[:80]}”.", "unknown_field")
        if value is not None and value not in neutral[name]:
            raise refuse_langgraph_field(name, f"Muster does not support this value of “{name}”.", "unsupported_field")
    return fields


def parse_typed_field(body: Mapping[str, JSON], name: str, kind: type, default: Any = None) -> Any:
    """The field's value, which must be of this type. Raises Invalid."""
    value = body.get(name, default)
    if value is None:
        return None
    # True and False are integers to Python, but not to the API.
    is_flag_for_number = kind is int and isinstance(value, bool)
    if not isinstance(value, kind) or is_flag_for_number:
        raise refuse_langgraph_field(name, f"“{name}” must be {KINDS[kind]}.")
    return value


def parse_choice_field(body: Mapping[str, JSON], name: str, values: Iterable[str], default: str) -> str:
    value = parse_typed_field(body, name, str, default)
    if value not in values:
        raise refuse_langgraph_field(name, f"“{name}” can be {', '.join(values)}.")
    return value


def parse_page_slice(body: Mapping[str, JSON], limit: int = 10) -> slice:
    """`limit` and `offset`, of a body or of query parameters."""
    size = parse_whole_number(body, "limit", limit)
    start = parse_whole_number(body, "offset", 0)
    if size > MOST:
        raise refuse_langgraph_field("limit", f"“limit” can be at most {MOST}.")
    return slice(start, start + size)


def read_rows(rows: Any, body: Mapping[str, JSON], limit: int = 10) -> tuple[list[Any], dict[str, str]]:
    """The rows of `limit` and `offset`, as far as one answer holds them, and headers that say where the next begin."""
    window = parse_page_slice(body, limit)
    page, has_more = read_page(rows, window.stop - window.start, window.start)
    headers = build_next_page_headers(window.start + len(page)) if has_more else {}
    return page, headers


def build_next_page_headers(offset: int) -> dict[str, str]:
    return {NEXT_OFFSET: str(offset)}


def parse_whole_number(body: Mapping[str, JSON], name: str, default: int) -> int:
    """A number of a body or of a query. Raises Invalid."""
    value = body.get(name, default)
    # Query parameters are texts.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**9:
        raise refuse_langgraph_field(name, f"“{name}” must be a whole number from 0.")
    return value


def parse_sort_order(body: Mapping[str, JSON], columns: Mapping[str, str], default: str) -> list[str]:
    """`sort_by` and `sort_order` as an ordering, newest first unless it is asked otherwise.

    Some clients write both as one text, `order_by`: "created_at DESC".
    """
    if "order_by" in body:
        body = {**body, **parse_order(body)}
    column = columns[parse_choice_field(body, "sort_by", columns, default)]
    direction = parse_choice_field(body, "sort_order", ("asc", "desc"), "desc")
    if direction == "desc":
        column = f"-{column}"
    return [column, "-pk"]


def parse_order(body: Mapping[str, JSON]) -> dict[str, str]:
    """`order_by` as `sort_by` and `sort_order`. Raises Invalid."""
    if "sort_by" in body or "sort_order" in body:
        raise refuse_langgraph_field("order_by", "Send “order_by”, or “sort_by” and “sort_order”.")
    words = parse_typed_field(body, "order_by", str).lower().split()
    if not 1 <= len(words) <= 2:
        raise refuse_langgraph_field("order_by", "“order_by” is a field, and asc or desc behind it.")
    return dict(zip(("sort_by", "sort_order"), words, strict=False))


def filter_row_fields(
    rows: list[dict[str, JSON]], body: Mapping[str, JSON], selectable: Iterable[str]
) -> list[dict[str, JSON]]:
    """Only the fields in `select`."""
    names = parse_typed_field(body, "select", list)
    if names is None:
        return rows
    for name in names:
        if name not in selectable:
            raise refuse_langgraph_field("select", f"“{str(name)[:80]}” cannot be selected.")
    selection = set(names)
    return [{name: value for name, value in row.items() if name in selection} for row in rows]


def parse_langgraph_id(text: JSON, kind: str) -> UUID:
    """Raises NotFound for what cannot be an id."""
    try:
        return UUID(str(text))
    except ValueError:
        raise NotFound(f"There is no {kind} “{str(text)[:80]}” that you can see.")


def filter_by_metadata(rows: QuerySet[Any], metadata: Mapping[str, JSON], column: str = "metadata") -> Any:
    """Rows whose metadata has these values at these keys."""
    if len(metadata) > MOST_KEYS:
        raise refuse_langgraph_field(column, f"A search can name at most {MOST_KEYS} keys.", "unsupported_field")
    for place, (key, value) in enumerate(metadata.items()):
        # SQLite reads these as something else.
        if '"' in key or key.lstrip("-").isdigit():
            message = f"A search by the key “{key[:40]}” is not possible."
            raise refuse_langgraph_field(column, message, "unsupported_field")
        alias = f"value_{place}"
        rows = rows.alias(**{alias: KeyTransform(key, column)})
        rows = rows.filter(**{alias: value})
    return rows
