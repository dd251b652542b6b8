"""Finds the pieces of a collection's documents that answer a question."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from knowledge import full_text
from knowledge.models import Chunk, Collection

from . import meaning

# Results of one search.
MOST = 50
# Pieces of each list that are fused.
POOL = 100
# The usual constant: the first ranks do not decide alone.
SMOOTH = 60


@dataclass(frozen=True, slots=True)
class Found:
    chunk: Chunk
    score: float


def search_collection(collection: Collection, text: str, *, limit: int, version: int | None = None) -> list[Found]:
    """The best pieces of this version of the collection, by default of the present one."""
    return next(search_each(collection, [text], limit=limit, version=version))


def search_each(
    collection: Collection, texts: Sequence[str], *, limit: int, version: int | None = None
) -> Iterator[list[Found]]:
    """The same for several texts, whose vectors are asked for at once."""
    if version is None:
        version = collection.version
    for ranking in list_scored_chunks(collection, version, texts, min(limit, MOST)):
        scores = dict(ranking)
        rows = Chunk.objects.filter(pk__in=scores).select_related("document").defer("words")
        chunks = {row.pk: row for row in rows}
        # A chunk may have been erased meanwhile.
        yield [Found(chunks[pk], score) for pk, score in scores.items() if pk in chunks]


def list_scored_chunks(
    collection: Collection, version: int, texts: Sequence[str], limit: int
) -> list[list[tuple[int, float]]]:
    """By words; also by meaning where the collection has a model that answers."""
    pool = POOL if collection.embeddings else limit
    rankings = [full_text.search_full_text(collection.pk, version, text, pool) for text in texts]
    if not collection.embeddings:
        return rankings
    found_by_words: list[list[int]] = []
    for ranking in rankings:
        found_by_words.append([pk for pk, _ in ranking])
    near = meaning.find_nearest_chunks(collection, version, texts, POOL, found_by_words)
    # The model is away: words alone find something, and an answer is better than none.
    if near is None:
        return [ranking[:limit] for ranking in rankings]
    merged = []
    for by_words, by_meaning in zip(found_by_words, near, strict=True):
        ranking = merge_rankings(by_words, by_meaning)
        merged.append(ranking[:limit])
    return merged


def merge_rankings(*lists: list[int]) -> list[tuple[int, float]]:
    """Reciprocal rank fusion: the scores of words and of vectors cannot be compared, their ranks can."""
    scores: dict[int, float] = defaultdict(float)
    for ranked in lists:
        for rank, pk in enumerate(ranked, 1):
            scores[pk] += 1 / (SMOOTH + rank)
    # Of equal scores the older piece comes first, so that a search gives the same order each time.
    return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))


def build_chunk_place(chunk: Chunk) -> dict[str, Any]:
    return {"page": chunk.page, "heading": chunk.heading, "position": chunk.position, "text": chunk.place}
