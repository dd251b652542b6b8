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

WEIGHTS = (3.0, 1.0, 0.5)  # of words in the name, the description, and the parameters
LONG = 0.25  # how much a long definition counts for less, which has more words to match by chance
SHARED = 0.1  # what a text that shares all its words with a tool adds to their similarity of -1 to 1
READ = 4000  # characters of a description that are read
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
    method: str  # words, or words and meaning


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
    weights: dict[str, float] = {}
    for text, weight in zip((name, description, " . ".join(parameters(tool.input_schema))), WEIGHTS, strict=True):
        for stem in list_word_stems(text):
            weights[stem] = max(weights.get(stem, 0.0), weight)
    return Entry(build_tool_key(tool), weights, f"{name}: {description[:500]}")


def parameters(schema: JSON) -> Iterator[str]:
    """Names and descriptions of the top-level parameters."""
    rules = schema.get("properties") if isinstance(schema, dict) else None
    for name, rule in rules.items() if isinstance(rules, dict) else ():
        yield str(name)
        if isinstance(rule, dict) and isinstance(rule.get("description"), str):
            yield rule["description"][:200]


def search_tools(user: Any, entries: Sequence[Entry], text: str, limit: int) -> Found:
    """The entries that fit the text, best first. Words need no request; if the embedding model does not
    answer, they decide alone.
    """
    by_words = rank_by_words(entries, text)
    near = embeddings.similarities(user, text, [entry.about for entry in entries])
    if near is None:
        return Found(by_words[:limit], "words")
    return Found(with_meaning(entries, by_words, near, text)[:limit], "words and meaning")


def rank_by_words(entries: Sequence[Entry], text: str) -> list[Match]:
    """The entries that share a word with the text. A rare word weighs more than a frequent one."""
    stems = set(list_word_stems(text))
    having: Counter[str] = Counter()
    sharing = []
    for entry in entries:
        if common := stems & entry.weights.keys():
            having.update(common)
            sharing.append((entry, common))
    rarity = {stem: math.log(1 + len(entries) / number) for stem, number in having.items()}
    mean = sum(len(entry.weights) for entry in entries) / len(entries) if entries else 1
    matches = []
    for entry, common in sharing:
        points = sorted(((rarity[stem] * entry.weights[stem], stem) for stem in common), reverse=True)
        length = 1 - LONG + LONG * len(entry.weights) / (mean or 1)
        matches.append(Match(entry.key, sum(value for value, _ in points) / length, tuple(stem for _, stem in points)))
    return sorted(matches, key=lambda match: (-match.score, match.key))


def with_meaning(entries: Sequence[Entry], by_words: Sequence[Match], near: Sequence[float], text: str) -> list[Match]:
    """Ranked by meaning. The share of the text's words that a tool has adds a little, for exact names."""
    words = {match.key: match.words for match in by_words}
    number = len(set(list_word_stems(text))) or 1
    matches = []
    for entry, nearness in zip(entries, near, strict=True):
        shared = words.get(entry.key, ())
        matches.append(Match(entry.key, nearness + SHARED * len(shared) / number, shared))
    return sorted(matches, key=lambda match: (-match.score, match.key))
