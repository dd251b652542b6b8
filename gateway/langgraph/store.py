"""The store: a person's JSON documents by namespace and key (rows: agents/models/item.py)."""

from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Left
from rest_framework.response import Response

from agents.exceptions import Conflict, NotFound
from agents.http.viewsets import Audited
from agents.models import StoredItem

from .views import (
    LangGraphView,
    filter_by_metadata,
    parse_langgraph_fields,
    parse_page_slice,
    parse_typed_field,
    read_rows,
    refuse_langgraph_field,
)

JSON = Any
# Items and bytes of one person, and bytes of one value.
MAX_ITEMS, MAX_BYTES, MAX_VALUE = 100_000, 64 << 20, 1 << 20
NOT_INDEXED = {"index": (False,), "ttl": (), "refresh_ttl": (False, True)}


class ItemsView(Audited, LangGraphView):
    """PUT, GET and DELETE /store/items. The namespace is a list of labels; in GET they are joined by dots."""

    scope = "sessions"
    parameters = {"get": ("namespace", "key", "refresh_ttl")}
    bodies = ("delete",)

    def put(self, request: Any) -> Response:
        body = parse_langgraph_fields(request.data, ("namespace", "key", "value"), NOT_INDEXED)
        namespace = parse_store_namespace(body.get("namespace"))
        key = parse_store_key(body)
        value = parse_typed_field(body, "value", dict)
        if value is None:
            raise refuse_langgraph_field("value", "“value” must be an object.")
        size = StoredItem.size_of(value)
        check_store_room(request.user, namespace, key, size)
        item, is_new = StoredItem.objects.update_or_create(
            owner=request.user, namespace=namespace, key=key, defaults={"value": value, "size": size}
        )
        self.audit("created" if is_new else "updated", item)
        return Response(status=204)

    def get(self, request: Any) -> Response:
        query = request.query_params
        labels = query.get("namespace", "").split(".")
        item = load_item(request.user, labels, parse_store_key(query))
        return Response(serialize_item(item))

    def delete(self, request: Any) -> Response:
        body = parse_langgraph_fields(request.data, ("namespace", "key"))
        namespace = parse_store_namespace(body.get("namespace"))
        key = parse_store_key(body)
        item = build_items_query(request.user).filter(namespace=namespace, key=key).first()
        if item:
            self.audit("deleted", item)
            item.delete()
        return Response(status=204)


class ItemSearchView(LangGraphView):
    """POST /store/items/search: by namespace and by values, last changed first."""

    scopes = {"post": "sessions:read"}

    def post(self, request: Any) -> Response:
        names = ("namespace_prefix", "filter", "limit", "offset")
        body = parse_langgraph_fields(request.data, names, {"query": ("",), "refresh_ttl": (False, True)})
        conditions = parse_typed_field(body, "filter", dict, {})
        if any(has_operator(value) for value in conditions.values()):
            raise refuse_langgraph_field("filter", "The filter compares values for equality only.", "unsupported_field")
        labels = parse_typed_field(body, "namespace_prefix", list, [])
        rows = filter_below(build_items_query(request.user), labels)
        rows = filter_by_metadata(rows, conditions, "value").order_by("-updated_at", "-pk")
        page, headers = read_rows(rows, body)
        items = [serialize_item(item) for item in page]
        return Response({"items": items}, headers=headers)


def has_operator(value: JSON) -> bool:
    """Whether it compares with something like {"$gt": 5}."""
    if not isinstance(value, dict):
        return False
    return any(name.startswith("$") for name in value)


class NamespacesView(LangGraphView):
    """POST /store/namespaces"""

    scopes = {"post": "sessions:read"}

    def post(self, request: Any) -> Response:
        body = parse_langgraph_fields(request.data, ("prefix", "suffix", "max_depth", "limit", "offset"))
        suffix = parse_typed_field(body, "suffix", list, [])
        depth = parse_typed_field(body, "max_depth", int) or None
        prefix = parse_typed_field(body, "prefix", list, [])
        rows = filter_below(build_items_query(request.user), prefix)
        names = rows.values_list("namespace", flat=True).order_by("namespace").distinct()
        # Several namespaces can be the same once they are cut; a dict keeps the first of each, in order.
        paths: dict[tuple[str, ...], None] = {}
        for name in names.iterator():
            labels = name.split(".")
            if not suffix or labels[-len(suffix) :] == suffix:
                paths[tuple(labels[:depth])] = None
        namespaces = [list(path) for path in paths]
        return Response({"namespaces": namespaces[parse_page_slice(body, 100)]})


def build_items_query(user: Any) -> QuerySet[StoredItem]:
    return StoredItem.objects.visible_to(user)


def load_item(user: Any, labels: list[str], key: str) -> StoredItem:
    namespace = parse_store_namespace(labels)
    item = build_items_query(user).filter(namespace=namespace, key=key).first()
    if item is None:
        raise NotFound(f"There is no item “{key[:80]}” in this namespace.")
    return item


def parse_store_namespace(labels: JSON, field: str = "namespace") -> str:
    """The labels joined by dots. Raises Invalid."""
    if not isinstance(labels, list) or not labels or not all(isinstance(one, str) for one in labels):
        raise refuse_langgraph_field(field, f"“{field}” must be a list of labels.")
    namespace = ".".join(labels)
    if len(namespace) > 500 or any(not one or "." in one or "\0" in one for one in labels):
        message = "A label has no dot and is not empty; all together have at most 500 characters."
        raise refuse_langgraph_field(field, message)
    return namespace


def parse_store_key(body: Any) -> str:
    key = body.get("key")
    if not isinstance(key, str) or not 0 < len(key) <= 200 or "\0" in key:
        raise refuse_langgraph_field("key", "“key” must be text of 1 to 200 characters.")
    return key


def filter_below(rows: QuerySet[StoredItem], labels: list[JSON]) -> QuerySet[StoredItem]:
    """Items in this namespace and in those below it; [] is the root of all."""
    if not labels:
        return rows
    name = parse_store_namespace(labels, "namespace_prefix")
    # SQLite's startswith ignores the case.
    rows = rows.alias(start=Left("namespace", len(name) + 1))
    return rows.filter(Q(namespace=name) | Q(start=f"{name}."))


def check_store_room(user: Any, namespace: str, key: str, size: int) -> None:
    """Raises Invalid for a value that is too large, Conflict when the store is full."""
    if size > MAX_VALUE:
        raise refuse_langgraph_field("value", f"A value has at most {MAX_VALUE >> 10} KiB of JSON.", "too_large")
    # An item that is replaced gives its own room back.
    others = build_items_query(user).exclude(namespace=namespace, key=key)
    used = others.aggregate(items=Count("pk"), bytes=Sum("size"))
    used_bytes = used["bytes"] or 0
    # Two requests at once may exceed the limit by one value each, which harms nobody.
    if used["items"] >= MAX_ITEMS or used_bytes + size > MAX_BYTES:
        message = f"Your store holds at most {MAX_ITEMS} items and {MAX_BYTES >> 20} MiB."
        raise Conflict(message, code="store_full", hint="Delete some items.")


def serialize_item(item: StoredItem) -> dict[str, JSON]:
    return {
        "namespace": item.namespace.split("."),
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
