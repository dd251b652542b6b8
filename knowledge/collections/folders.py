"""Folders of devices that are searched with a collection: who may reach them, and how their excerpts join the pieces of
documents.

`device_folders.py` asks the devices. Nothing of their files is stored. Only the owner of a device reaches it, and only
a search of the present version: files there have no versions.
"""

from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from knowledge.models import Collection, CollectionFolder

from . import device_folders
from .device_folders import PREFIX, Absent, Asker, Excerpt
from .search import SMOOTH, Found, build_chunk_place, search_collection


@dataclass(frozen=True, slots=True)
class Results:
    hits: list[Found | Excerpt] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)


def search_all(collection: Collection, text: str, asker: Asker, *, limit: int, version: int | None = None) -> Results:
    """Pieces of documents and excerpts of the asker's own devices, best first."""
    pieces = search_collection(collection, text, limit=limit, version=version)
    folders = list(CollectionFolder.objects.filter(collection=collection, owner_id=asker.user_id))
    if version is not None or not folders:
        return Results(list(pieces))
    excerpts, absent = device_folders.search_device_folders(folders, text, asker, limit)
    return Results(merge_ranked_hits(pieces, excerpts)[:limit], absent)


def merge_ranked_hits(pieces: list[Found], excerpts: list[Excerpt]) -> list[Found | Excerpt]:
    """Both lists merged by rank, because the scores of a device and of the index have no common scale."""
    if not excerpts:
        return list(pieces)
    hits: list[Found | Excerpt] = []
    for rank, piece in enumerate(pieces, 1):
        hits.append(Found(piece.chunk, 1 / (SMOOTH + rank)))
    hits += excerpts
    # Sorting keeps the order of equal scores: the documents' pieces come first.
    return sorted(hits, key=lambda hit: -hit.score)


def serialize_search_results(results: Results) -> dict[str, Any]:
    """The results in the form of the REST API."""
    hits = [serialize_search_hit(hit) for hit in results.hits]
    absent = [asdict(folder) for folder in results.absent]
    return {"results": hits, "not_searched": absent}


def serialize_search_hit(hit: Found | Excerpt) -> dict[str, Any]:
    score = round(hit.score, 6)
    if isinstance(hit, Excerpt):
        document = {"id": "", "name": hit.path, "untrusted": True, "device": hit.device}
        place = {"page": hit.page, "heading": "", "position": None, "line": hit.line, "text": hit.place}
        return {"document": document, "place": place, "text": hit.text, "score": score}
    row = hit.chunk.document
    document = {"id": str(row.pk), "name": row.name, "untrusted": row.untrusted, "device": None}
    # Lines are known of files alone.
    place = {**build_chunk_place(hit.chunk), "line": None}
    return {"document": document, "place": place, "text": hit.chunk.text, "score": score}


def read_place(collection: Collection, id: str, asker: Asker, size: int) -> dict[str, Any] | None:
    """The text of a file around an excerpt, as {"folder", "text", "next"}; None if the asker reaches no such place.
    Raises ToolFailed if the device does not answer.
    """
    folder_id, _, rest = id.removeprefix(PREFIX).partition(":")
    offset, _, path = rest.partition(":")
    try:
        folder_uuid = UUID(folder_id)
    except ValueError:
        return None
    folder = CollectionFolder.objects.filter(collection=collection, owner_id=asker.user_id, pk=folder_uuid).first()
    is_number = offset.isascii() and offset.isdigit()
    if folder is None or not is_number or not is_inside(folder.path, path):
        return None
    passage: dict[str, Any] | None = device_folders.read_device_file(folder, path, int(offset), asker, size)
    return passage


def is_inside(folder: str, path: str) -> bool:
    """The device checks it once more; an id of a search may come from anybody."""
    if ".." in path.split("/"):
        return False
    return path.startswith(f"{folder}/")
