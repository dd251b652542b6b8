"""The tools `search` and `fetch` over all collections of a person, with the shapes that hosts such as ChatGPT expect.

A person has them who may use a collection. Each call is an event of the audit log.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

from django.conf import settings

from agents.models import AuditEvent
from agents.tools import RetryTool
from knowledge.collections import across
from knowledge.collections.calls import reference

from .content import text
from .protocol import RpcRequest

JSON = Any
KIND = "collections"
SCOPE = "collections:read"
# The most characters of each.
QUERY, ID = 500, 80
PLACE = {name: {"type": "string"} for name in ("id", "title", "url")}
SHAPES: dict[str, dict[str, JSON]] = {
    "search": {
        "title": "Search documents",
        "description": "Search the documents of all collections. Returns places in documents, best first; `fetch` "
        "reads one.",
        "inputSchema": {
            "type": "object",
            "properties": {"query": {"type": "string", "minLength": 1, "maxLength": QUERY}},
            "required": ["query"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "results": {
                    "type": "array",
                    "items": {"type": "object", "properties": PLACE, "required": [*PLACE]},
                }
            },
            "required": ["results"],
        },
    },
    "fetch": {
        "title": "Read a document",
        "description": "Read a document at a place that `search` found. A long document goes on at the id in "
        "`metadata.next`.",
        "inputSchema": {
            "type": "object",
            "properties": {"id": {"type": "string", "minLength": 1, "maxLength": ID}},
            "required": ["id"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                **PLACE,
                "text": {"type": "string"},
                "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": [*PLACE, "text"],
        },
    },
}


def list_document_tools(rpc: RpcRequest, only: str | None = None) -> list[str]:
    """The tools that this person has; `only` this one."""
    names = [name for name in SHAPES if only in (None, name)]
    if not names or not rpc.may(SCOPE):
        return []
    if not across.build_usable_collections_query(rpc.user).exists():
        return []
    return names


def describe_document_tool(name: str) -> dict[str, JSON]:
    """`name` may have the kind before it; see catalogue.py."""
    shape = SHAPES[get_tool_verb(name)]
    hints = {"title": shape["title"], "readOnlyHint": True, "openWorldHint": False}
    return {"name": name, **shape, "annotations": hints}


def get_tool_verb(name: str) -> str:
    return name.rpartition(".")[2]


def call_document_tool(rpc: RpcRequest) -> dict[str, JSON]:
    """The result of one call; a call that cannot be answered says why."""
    answer = ANSWERS[get_tool_verb(rpc.text("name"))]
    try:
        return answer(rpc)
    except RetryTool as error:
        return {"content": [text(str(error))], "isError": True}


def answer_document_search(rpc: RpcRequest) -> dict[str, JSON]:
    """{"results": [{"id", "title", "url"}]}."""
    pieces = across.search_all_collections(rpc.user, argument(rpc, "query", QUERY))
    places = []
    names = set()
    is_untrusted = False
    for collection, piece in pieces:
        places.append(absolute(reference(collection, piece.chunk)))
        names.add(collection.name)
        is_untrusted = is_untrusted or piece.chunk.document.untrusted
    record_document_access(rpc, "collections.searched", rpc.user, results=len(pieces), collections=sorted(names))
    return build_document_answer({"results": places}, is_untrusted)


def answer_document_fetch(rpc: RpcRequest) -> dict[str, JSON]:
    """{"id", "title", "text", "url", "metadata"}: `metadata` has texts only."""
    id = argument(rpc, "id", ID)
    collection, result = across.load_found_text(rpc.user, id)
    facts = {"collection": collection.name}
    if result.untrusted:
        facts["untrusted"] = "true"
    facts |= result.value["metadata"]
    metadata = {name: str(value) for name, value in facts.items() if value not in (None, "")}
    record_document_access(rpc, "collection.fetched", collection, place=id)
    document = absolute(result.value)
    document["metadata"] = metadata
    return build_document_answer(document, result.untrusted)


def argument(rpc: RpcRequest, name: str, most: int) -> str:
    """Raises RetryTool."""
    value = rpc.object("arguments").get(name)
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise RetryTool(f"“{name}” must be a text of 1 to {most} characters.", code="invalid_arguments")
    return value


def absolute(place: dict[str, JSON]) -> dict[str, JSON]:
    return {**place, "url": urljoin(settings.PUBLIC_URL, place["url"])}


def build_document_answer(value: dict[str, JSON], untrusted: bool) -> dict[str, JSON]:
    """As text for hosts that read only text, and structured. `muster/untrusted`: others may have written this."""
    as_text = text(json.dumps(value, ensure_ascii=False))
    return {"content": [as_text], "structuredContent": value, "_meta": {"muster/untrusted": untrusted}}


def record_document_access(rpc: RpcRequest, action: str, subject: Any, **details: JSON) -> None:
    client = {"client": rpc.client}
    if rpc.key:
        client["key"] = rpc.key.name
    AuditEvent.record(action, subject, actor=rpc.user, source="mcp", **client, **details)


ANSWERS: dict[str, Callable[[RpcRequest], dict[str, JSON]]] = {
    "search": answer_document_search,
    "fetch": answer_document_fetch,
}
