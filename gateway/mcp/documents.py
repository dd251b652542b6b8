"""The tools `search` and `fetch` over all collections of a person, with the shapes that hosts such as ChatGPT expect.

A person has them who may use a collection. Each call is an event of the audit log.
"""

import json
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
QUERY, ID = 500, 80  # characters
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
    shapes = [name for name in SHAPES if only in (None, name)]
    return shapes if shapes and rpc.may(SCOPE) and across.build_usable_collections_query(rpc.user).exists() else []


def describe_document_tool(name: str) -> dict[str, JSON]:
    """`name` may have the kind before it; see catalogue.py."""
    shape = SHAPES[get_tool_verb(name)]
    hints = {"title": shape["title"], "readOnlyHint": True, "openWorldHint": False}
    return {"name": name, **shape, "annotations": hints}


def get_tool_verb(name: str) -> str:
    return name.rpartition(".")[2]


def call_document_tool(rpc: RpcRequest) -> dict[str, JSON]:
    """The result of one call; a call that cannot be answered says why."""
    try:
        return {"search": answer_document_search, "fetch": answer_document_fetch}[get_tool_verb(rpc.text("name"))](rpc)
    except RetryTool as error:
        return {"content": [text(str(error))], "isError": True}


def answer_document_search(rpc: RpcRequest) -> dict[str, JSON]:
    """{"results": [{"id", "title", "url"}]}."""
    pieces = across.search_all_collections(rpc.user, argument(rpc, "query", QUERY))
    places = [absolute(reference(row, piece.chunk)) for row, piece in pieces]
    collections = sorted({row.name for row, _ in pieces})
    record_document_access(rpc, "collections.searched", rpc.user, results=len(pieces), collections=collections)
    return build_document_answer({"results": places}, any(piece.chunk.document.untrusted for _, piece in pieces))


def answer_document_fetch(rpc: RpcRequest) -> dict[str, JSON]:
    """{"id", "title", "text", "url", "metadata"}: `metadata` has texts only."""
    id = argument(rpc, "id", ID)
    collection, result = across.load_found_text(rpc.user, id)
    facts = {"collection": collection.name, "untrusted": "true" if result.untrusted else None}
    facts |= result.value["metadata"]
    metadata = {name: str(value) for name, value in facts.items() if value not in (None, "")}
    record_document_access(rpc, "collection.fetched", collection, place=id)
    return build_document_answer({**absolute(result.value), "metadata": metadata}, result.untrusted)


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
    shown = text(json.dumps(value, ensure_ascii=False))
    return {"content": [shown], "structuredContent": value, "_meta": {"muster/untrusted": untrusted}}


def record_document_access(rpc: RpcRequest, action: str, subject: Any, **details: JSON) -> None:
    key = {"key": rpc.key.name} if rpc.key else {}
    AuditEvent.record(action, subject, actor=rpc.user, source="mcp", client=rpc.client, **key, **details)
