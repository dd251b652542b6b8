"""Searches the documents of all collections that a person may use, and reads any of them. Folders of devices are
searched with one collection only, as each device must answer first.
"""

import math
from collections import Counter
from typing import Any

from agents.tools import RetryTool, ToolResult
from knowledge.models import Collection, Document
from knowledge.words import list_search_stems

from . import calls
from .device_folders import Asker
from .search import SMOOTH, Found, search_collection

# Collections of one search, a person's own first.
MOST = 20
RESULTS = 10
Result = tuple[Collection, Found]


def build_usable_collections_query(user: Any) -> Any:
    return Collection.objects.usable_by(user)


def search_all_collections(user: Any, text: str) -> list[Result]:
    """The best pieces of all collections. Scores of two collections cannot be compared, so a piece counts by its rank
    in its own collection and by the words that it shares with the text, the rarer among all results the more.
    """
    results: dict[int, Result] = {}
    scores: dict[int, float] = {}
    collections = build_usable_collections_query(user).nearest_first(user)
    for collection in collections[:MOST]:
        pieces = search_collection(collection, text, limit=RESULTS)
        for rank, piece in enumerate(pieces, 1):
            pk = piece.chunk.pk
            results[pk] = (collection, piece)
            scores[pk] = 1 / (SMOOTH + rank)
    for rank, pk in enumerate(rank_by_words(text, results), 1):
        scores[pk] += 1 / (SMOOTH + rank)
    best = sorted(results, key=lambda pk: (-scores[pk], pk))
    return [results[pk] for pk in best[:RESULTS]]


def rank_by_words(text: str, results: dict[int, Result]) -> list[int]:
    """The pieces by the words that they share with the text; a word that few of them have weighs more."""
    question_stems = set(list_search_stems(text))
    shared: dict[int, set[str]] = {}
    having: Counter[str] = Counter()  # how many pieces have each of the stems
    for pk, (_, piece) in results.items():
        shared[pk] = question_stems & find_piece_stems(piece)
        having.update(shared[pk])
    rarity = {stem: math.log(1 + len(results) / count) for stem, count in having.items()}
    weights: dict[int, float] = {}
    for pk, stems in shared.items():
        weights[pk] = sum(rarity[stem] for stem in stems)
    return sorted(results, key=lambda pk: (-weights[pk], pk))


def find_piece_stems(piece: Found) -> set[str]:
    chunk = piece.chunk
    text = f"{chunk.document.name} . {chunk.heading} . {chunk.text}"
    return set(list_search_stems(text))


def load_found_text(user: Any, id: str) -> tuple[Collection, ToolResult]:
    """The text at a place that a search found; see `calls.answer_fetch_call`. Raises RetryTool."""
    document_id, _ = calls.parse_place_id(id)
    collections = build_usable_collections_query(user).values("pk")
    rows = Document.objects.filter(pk=document_id, collection__in=collections)
    document = rows.select_related("collection").first()
    if document is None:
        raise RetryTool("There is no document with this id. Use an id of the search.", code="not_found")
    collection = document.collection
    result = calls.answer_fetch_call(collection, None, {"id": id}, Asker(user.pk))
    return collection, result
