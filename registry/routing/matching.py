"""Compares agents and messages by words. Plain Python, no model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.words import list_word_stems

from .profiles import Profile

SURE = 0.5  # below this confidence, matching words decides nothing
TELLING = 3.0  # a sufficient score: one word of a capability that no other agent has


@dataclass(frozen=True, slots=True)
class Match:
    """`score` is open-ended. `confidence` is 0 to 1: for the best, how much of the message matched
    and how far it leads.

    The other candidates get a share of the best one's confidence.
    """

    profile: Profile
    score: float
    confidence: float
    words: tuple[str, ...]


def rank_by_words(profiles: Sequence[Profile], text: str, among: Sequence[Profile] | None = None) -> list[Match]:
    """The agents that share a word with the text, best first. `among` limits the ranking;
    `profiles` give the rarity of words.
    """
    rarity = {stem: rareness(stem, profiles) for stem in set(list_word_stems(text))}
    scored = []
    for profile in profiles if among is None else among:
        if common := profile.weights.keys() & rarity.keys():
            points = sorted(((profile.weights[stem] * rarity[stem], stem) for stem in common), reverse=True)
            scored.append((sum(value for value, _ in points), profile, tuple(stem for _, stem in points)))
    if not scored:
        return []
    scored.sort(key=lambda entry: (-entry[0], entry[1].name))
    best = scored[0][0]
    rival = next((score for score, _, _ in scored if score != best), 0.0)  # an equal score is a tie, not a rival
    sure = confidence(best, rival)
    return [Match(profile, score, sure * score / best if best else 0.0, words) for score, profile, words in scored]


def rareness(stem: str, profiles: Sequence[Profile]) -> float:
    """0 to 1: a word of a single agent weighs most, a word of all agents nothing."""
    having = sum(1 for profile in profiles if stem in profile.weights)
    if not having:
        return 0.0
    return math.log(1 + len(profiles) / having) / math.log(1 + len(profiles))


def confidence(score: float, other: float) -> float:
    if score <= other:
        return 0.0
    return min(1.0, score / TELLING) * min(1.0, 2 * (score - other) / score)


def capability_hits(profiles: Sequence[Profile], text: str) -> list[tuple[Profile, str, frozenset[str]]]:
    """(agent, capability, its words) for capabilities whose words all occur in the text."""
    stems = set(list_word_stems(text))
    return [
        (profile, capability, words)
        for profile in profiles
        for capability, words in profile.capabilities
        if words and words <= stems
    ]


def sharpest(winners: list[tuple[Profile, str]], profiles: Sequence[Profile], text: str) -> list[tuple[Profile, str]]:
    """Of the agents with a matching capability, those whose other words match best. All of a tie are kept."""
    able = [profile for profile, _ in winners]
    scores = {match.profile.id: match.score for match in rank_by_words(profiles, text, able)}
    best = max(scores.get(profile.id, 0.0) for profile, _ in winners)
    return [(profile, capability) for profile, capability in winners if scores.get(profile.id, 0.0) == best]


def able(profiles: Sequence[Profile], capability: str) -> list[Profile]:
    """Agents with this capability: the same text, else one with all its words, else one that shares
    a word.
    """
    capability_words = frozenset(list_word_stems(capability))
    phrase = capability.strip().lower()
    same = [one for one in profiles if any(text.strip().lower() == phrase for text, _ in one.capabilities)]
    whole = [
        one for one in profiles if capability_words and any(capability_words <= words for _, words in one.capabilities)
    ]
    some = [
        one
        for one in profiles
        if capability_words and any(words and words <= capability_words for _, words in one.capabilities)
    ]
    return same or whole or some


def shortlist(profiles: Sequence[Profile], text: str, size: int) -> list[Profile]:
    """At most `size` agents, those that share words first; all of them if they are few."""
    if len(profiles) <= size:
        return list(profiles)
    first = [match.profile for match in rank_by_words(profiles, text)[:size]]
    ids = {profile.id for profile in first}
    return (first + [profile for profile in profiles if profile.id not in ids])[:size]
