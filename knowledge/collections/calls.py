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
from .folders import read_place, search_all
from .search import Found

# Characters of one answer.
FETCHED = 12_000
# Pieces that are read before the place.
BEFORE = 2


def run_collection_call(tool: ToolSpec, call: ToolCall, asker: Asker) -> ToolResult:
    """One call. Raises RetryTool, ToolFailed."""
    collection = Collection.objects.filter(pk=tool.source.get("collection")).first()
    if collection is None:
        raise ToolFailed("This collection was deleted.", code="not_found")
    version = tool.pinned_version
    if version and version > collection.version:
        raise ToolFailed(f"This collection has no version {version}.", code="unknown_version")
    actions = {"search": answer_search_call, "fetch": answer_fetch_call}
    action = actions[str(tool.source.get("verb"))]
    return action(collection, version, call.arguments, asker)


def answer_search_call(
    collection: Collection, version: int | None, arguments: dict[str, Any], asker: Asker
) -> ToolResult:
    """{"results": [{"id", "title", "url", "text"}]}. Untrusted as soon as one of the documents is. `not_searched` names
    folders of devices that did not answer, or not about all their files.
    """
    limit = arguments.get("limit", 8)
    answer = search_all(collection, arguments["query"], asker, limit=limit, version=version)
    results = [serialize_call_hit(collection, hit) for hit in answer.hits]
    value: dict[str, Any] = {"results": results}
    if answer.absent:
        value["not_searched"] = [f"{folder.path} on {folder.device}: {folder.reason}" for folder in answer.absent]
    is_untrusted = any(map(is_hit_untrusted, answer.hits))
    return ToolResult(ok=True, value=value, untrusted=is_untrusted)


def is_hit_untrusted(hit: Found | Excerpt) -> bool:
    # Files of a device were written by anybody.
    if isinstance(hit, Excerpt):
        return True
    return hit.chunk.document.untrusted


def serialize_call_hit(collection: Collection, hit: Found | Excerpt) -> dict[str, Any]:
    if isinstance(hit, Excerpt):
        return {"id": hit.id, "title": hit.title, "url": None, "device": hit.device, "text": hit.text}
    fields: dict[str, Any] = reference(collection, hit.chunk)
    return {**fields, "text": hit.chunk.text}


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
    # The piece at the place is cited; if it did not fit, the first one.
    cited = chunks[0]
    for chunk in chunks:
        if chunk.position == position:
            cited = chunk
    after = chunks[-1].position + 1
    next_id = None
    if after < document.chunk_count:
        next_id = f"{document.pk}:{after + BEFORE}"
    metadata = {
        "document": document.name,
        "page": cited.page,
        "heading": cited.heading,
        "version": version,
        "source": document.url or None,
        "next": next_id,
    }
    text = "\n\n".join(one.text for one in chunks)
    value = {**reference(collection, cited), "text": text, "metadata": metadata}
    return ToolResult(ok=True, value=value, untrusted=document.untrusted)


def fetch_file(collection: Collection, version: int | None, id: str, asker: Asker) -> ToolResult:
    """The same from a file of a device, which has no versions."""
    value = None
    if version is None:
        value = read_place(collection, id, asker, FETCHED)
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
    id = f"{document.pk}:{chunk.position}"
    path = f"/collections/{collection.name}/documents/{document.pk}/?at={chunk.position}"
    return {"id": id, "title": f"{document.name}, {chunk.place}", "url": add_site_prefix(path)}


def parse_place_id(id: str) -> tuple[UUID, int]:
    """The document and the position of a piece, 0 if it is no number. Raises RetryTool."""
    document, _, place = id.partition(":")
    is_number = place.isascii() and place.isdigit() and len(place) < 8
    position = int(place) if is_number else 0
    try:
        return UUID(document), position
    except ValueError:
        raise RetryTool("This is not an id of the search.", code="not_found")
