"""Finds the tools that fit a text: by words, and by meaning where an embedding model is configured.

Used for agents with more tools than a model should be shown, and for people who write agents.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

from cachetools import LRUCache, cached

from knowledge.words import list_word_stems

from .routing import embeddings

# Of words in the name, the description, and the parameters.
WEIGHTS = (3.0, 1.0, 0.5)
# How much a long definition counts for less, which has more words to match by chance.
LONG = 0.25
# What a text that shares all its words with a tool adds to their similarity of -1 to 1.
SHARED = 0.1
# Characters of a description that are read.
READ = 4000
_entries: "LRUCache[tuple[int, str], Entry]" = LRUCache(50_000)
_lock = Lock()
Key = tuple[int, str]
JSON = Any


class Described(Protocol):
    """A row of the catalogue, or a tool as an agent holds it."""

    id: Any
    name: Any
    description: Any
    input_schema: Any
    definition_hash: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """The searchable form of one definition: its word stems with their weights, and a text for an
    embedding.
    """

    key: Key
    weights: dict[str, float]
    about: str


@dataclass(frozen=True, slots=True)
class Match:
    """`score` compares the matches of one search. `words` are the stems that matched, the rarest first."""

    key: Key
    score: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    matches: list[Match]
    # Words, or words and meaning.
    method: str


def build_tool_key(tool: Described) -> Key:
    return tool.id, tool.definition_hash


def find_known_entries(keys: Collection[Key]) -> dict[Key, Entry]:
    """The entries that need not be read again."""
    with _lock:
        return {key: _entries[key] for key in keys if key in _entries}


@cached(_entries, key=build_tool_key, lock=_lock)
def build_entry(tool: Described) -> Entry:
    """Kept by content, so a changed definition is read anew."""
    name = tool.name.replace("_", " ").replace("-", " ")
    description = tool.description[:READ]
    parameter_texts = " . ".join(parameters(tool.input_schema))
    texts = (name, description, parameter_texts)
    weights: dict[str, float] = {}
    for text, weight in zip(texts, WEIGHTS, strict=True):
        for stem in list_word_stems(text):
            weights[stem] = max(weights.get(stem, 0.0), weight)
    about = f"{name}: {description[:500]}"
    return Entry(build_tool_key(tool), weights, about)


def parameters(schema: JSON) -> Iterator[str]:
    """Names and descriptions of the top-level parameters."""
    if not isinstance(schema, dict):
        return
    rules = schema.get("properties")
    if not isinstance(rules, dict):
        return
    for name, rule in rules.items():
        yield str(name)
        if isinstance(rule, dict) and isinstance(rule.get("description"), str):
            yield rule["description"][:200]


def search_tools(user: Any, entries: Sequence[Entry], text: str, limit: int) -> Found:
    """The entries that fit the text, best first. Words need no request; if the embedding model does not
    answer, they decide alone.
    """
    by_words = rank_by_words(entries, text)
    abouts = [entry.about for entry in entries]
    near = embeddings.similarities(user, text, abouts)
    if near is None:
        return Found(by_words[:limit], "words")
    ranked = with_meaning(entries, by_words, near, text)
    return Found(ranked[:limit], "words and meaning")


def rank_by_words(entries: Sequence[Entry], text: str) -> list[Match]:
    """The entries that share a word with the text. A rare word weighs more than a frequent one."""
    if not entries:
        return []
    stems = set(list_word_stems(text))
    having: Counter[str] = Counter()
    sharing = []
    for entry in entries:
        common = stems & entry.weights.keys()
        if common:
            having.update(common)
            sharing.append((entry, common))
    rarity = {stem: math.log(1 + len(entries) / number) for stem, number in having.items()}
    mean_length = sum(len(entry.weights) for entry in entries) / len(entries) or 1
    matches = []
    for entry, common in sharing:
        points = [(rarity[stem] * entry.weights[stem], stem) for stem in common]
        points.sort(reverse=True)
        total = sum(value for value, _ in points)
        words = tuple(stem for _, stem in points)
        # A long description shares more words by chance, so its points count less.
        length = 1 - LONG + LONG * len(entry.weights) / mean_length
        matches.append(Match(entry.key, total / length, words))
    return sort_matches(matches)


def sort_matches(matches: list[Match]) -> list[Match]:
    return sorted(matches, key=lambda match: (-match.score, match.key))


def with_meaning(entries: Sequence[Entry], by_words: Sequence[Match], near: Sequence[float], text: str) -> list[Match]:
    """Ranked by meaning. The share of the text's words that a tool has adds a little, for exact names."""
    words_by_key = {match.key: match.words for match in by_words}
    word_count = len(set(list_word_stems(text))) or 1
    matches = []
    for entry, nearness in zip(entries, near, strict=True):
        shared = words_by_key.get(entry.key, ())
        bonus = SHARED * len(shared) / word_count
        matches.append(Match(entry.key, nearness + bonus, shared))
    return sort_matches(matches)
