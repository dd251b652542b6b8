"""Finds the pieces of a collection's documents that answer a question."""

from dataclasses import dataclass
from typing import Any

from knowledge import full_text
from knowledge.models import Chunk, Collection

from . import meaning

MOST = 50  # results
POOL = 100  # pieces of each list that are fused
SMOOTH = 60  # the usual constant: the first ranks do not decide alone


@dataclass(frozen=True, slots=True)
class Found:
    chunk: Chunk
    score: float


def search(collection: Collection, text: str, *, limit: int, version: int | None = None) -> list[Found]:
    """The best pieces of this version of the collection, by default of the present one."""
    number = collection.version if version is None else version
    scores = dict(scored(collection, number, text, min(limit, MOST)))
    rows = Chunk.objects.filter(pk__in=scores).select_related("document").defer("words")
    chunks = {row.pk: row for row in rows}
    return [Found(chunks[pk], score) for pk, score in scores.items() if pk in chunks]


def scored(collection: Collection, version: int, text: str, limit: int) -> list[tuple[int, float]]:
    """By words; also by meaning where the collection has a model that answers."""
    if not collection.embeddings:
        return full_text.search(collection.pk, version, text, limit)
    words = full_text.search(collection.pk, version, text, POOL)
    found = [pk for pk, _ in words]
    near = meaning.nearest(collection, version, text, POOL, found)
    return words[:limit] if near is None else fused(found, near)[:limit]


def fused(*lists: list[int]) -> list[tuple[int, float]]:
    """Reciprocal rank fusion: the scores of words and of vectors cannot be compared, their ranks can."""
    scores: dict[int, float] = {}
    for ranked in lists:
        for rank, pk in enumerate(ranked, 1):
            scores[pk] = scores.get(pk, 0.0) + 1 / (SMOOTH + rank)
    return sorted(scores.items(), key=lambda one: (-one[1], one[0]))


def result_of(found: Found) -> dict[str, Any]:
    """As REST shows it."""
    chunk = found.chunk
    return {
        "document": {"id": str(chunk.document_id), "name": chunk.document.name, "untrusted": chunk.document.untrusted},
        "place": place_of(chunk),
        "text": chunk.text,
        "score": round(found.score, 6),
    }


def place_of(chunk: Chunk) -> dict[str, Any]:
    return {"page": chunk.page, "heading": chunk.heading, "position": chunk.position, "text": chunk.place}
