"""The tools `search` and `fetch` of a collection, with the names and shapes that MCP hosts expect.

The right to call them is the right to the tool, which is shared as the collection is. A grant with a version keeps to
that version of the collection.
"""

from typing import Any
from uuid import UUID

from agents.tools import RetryTool, ToolCall, ToolFailed, ToolResult, ToolSpec
from knowledge.models import Chunk, Collection, Document
from plumbing.site_paths import add_site_prefix

from .device_folders import PREFIX, Asker, Excerpt
from .folders import of_place, search_all
from .search import Found

FETCHED = 12_000  # characters
BEFORE = 2  # pieces that are read before the place


def run_collection_call(tool: ToolSpec, call: ToolCall, asker: Asker) -> ToolResult:
    """One call. Raises RetryTool, ToolFailed."""
    collection = Collection.objects.filter(pk=tool.source.get("collection")).first()
    if collection is None:
        raise ToolFailed("This collection was deleted.", code="not_found")
    version = tool.pinned_version
    if version and version > collection.version:
        raise ToolFailed(f"This collection has no version {version}.", code="unknown_version")
    action = {"search": answer_search_call, "fetch": answer_fetch_call}[str(tool.source.get("verb"))]
    return action(collection, version, call.arguments, asker)


def answer_search_call(
    collection: Collection, version: int | None, arguments: dict[str, Any], asker: Asker
) -> ToolResult:
    """{"results": [{"id", "title", "url", "text"}]}. Untrusted as soon as one of the documents is. `not_searched` names
    folders of devices that did not answer, or not about all their files.
    """
    answer = search_all(collection, arguments["query"], asker, limit=arguments.get("limit", 8), version=version)
    value: dict[str, Any] = {"results": [serialize_call_hit(collection, hit) for hit in answer.hits]}
    if answer.absent:
        value["not_searched"] = [f"{folder.path} on {folder.device}: {folder.reason}" for folder in answer.absent]
    # Files of a device were written by anybody.
    is_untrusted = any(isinstance(hit, Excerpt) or hit.chunk.document.untrusted for hit in answer.hits)
    return ToolResult(ok=True, value=value, untrusted=is_untrusted)


def serialize_call_hit(collection: Collection, hit: Found | Excerpt) -> dict[str, Any]:
    if isinstance(hit, Excerpt):
        return {"id": hit.id, "title": hit.title, "url": None, "device": hit.device, "text": hit.text}
    return {**reference(collection, hit.chunk), "text": hit.chunk.text}


def answer_fetch_call(
    collection: Collection, version: int | None, arguments: dict[str, Any], asker: Asker
) -> ToolResult:
    """{"id", "title", "url", "text", "metadata"}: the text from a little before the place on."""
    if arguments["id"].startswith(PREFIX):
        return fetch_file(collection, version, arguments["id"], asker)
    version = version or collection.version
    document_id, position = parse_place_id(arguments["id"])
    document = Document.objects.filter(collection=collection, pk=document_id).of_version(version).first()
    if document is None:
        raise RetryTool("There is no document with this id. Use an id of the search.", code="not_found")
    chunks = list(iterate_document_chunks(document, max(0, position - BEFORE)))
    if not chunks:
        raise RetryTool("The document has no such part. Use an id of the search.", code="not_found")
    after = chunks[-1].position + 1
    shown = next((one for one in chunks if one.position == position), chunks[0])
    value = {
        **reference(collection, shown),
        "text": "\n\n".join(one.text for one in chunks),
        "metadata": {
            "document": document.name, "page": shown.page, "heading": shown.heading, "version": version,
            "source": document.url or None,
            "next": f"{document.pk}:{after + BEFORE}" if after < document.chunk_count else None,
        },
    }  # fmt: skip
    return ToolResult(ok=True, value=value, untrusted=document.untrusted)


def fetch_file(collection: Collection, version: int | None, id: str, asker: Asker) -> ToolResult:
    """The same from a file of a device, which has no versions."""
    value = of_place(collection, id, asker, FETCHED) if version is None else None
    if value is None:
        raise RetryTool("There is no file with this id. Use an id of the search.", code="not_found")
    return ToolResult(ok=True, value=value, untrusted=True)


def iterate_document_chunks(document: Document, first: int) -> Any:
    """Pieces in order, as many as fit."""
    room = FETCHED
    for chunk in document.chunks.filter(position__gte=first).defer("words")[:200]:
        room -= len(chunk.text)
        if room < 0:
            return
        chunk.document = document
        yield chunk


def reference(collection: Collection, chunk: Chunk) -> dict[str, str]:
    """How an answer cites a piece. The address is that of the page that shows the piece in its document."""
    document = chunk.document
    url = add_site_prefix(f"/collections/{collection.name}/documents/{document.pk}/?at={chunk.position}")
    return {"id": f"{document.pk}:{chunk.position}", "title": f"{document.name}, {chunk.place}", "url": url}


def parse_place_id(id: str) -> tuple[UUID, int]:
    document, _, position = id.partition(":")
    try:
        return UUID(document), int(position) if position.isascii() and position.isdigit() and len(position) < 8 else 0
    except ValueError:
        raise RetryTool("This is not an id of the search.", code="not_found")
