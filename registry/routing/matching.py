"""Compares agents and messages by words. Plain Python, no model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.words import list_word_stems

from .profiles import Profile

# Below this confidence, matching words decides nothing.
SURE = 0.5
# A sufficient score: one word of a capability that no other agent has.
TELLING = 3.0


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
    if among is None:
        among = profiles
    rarity = {stem: rareness(stem, profiles) for stem in set(list_word_stems(text))}
    scored = []
    for profile in among:
        common = profile.weights.keys() & rarity.keys()
        if not common:
            continue
        points = [(profile.weights[stem] * rarity[stem], stem) for stem in common]
        points.sort(reverse=True)
        score = sum(value for value, _ in points)
        words = tuple(stem for _, stem in points)
        scored.append((score, profile, words))
    if not scored:
        return []
    scored.sort(key=lambda entry: (-entry[0], entry[1].name))
    best = scored[0][0]
    # An equal score is a tie, not a rival.
    rival = next((score for score, _, _ in scored if score != best), 0.0)
    confidence_of_best = confidence(best, rival)
    matches = []
    for score, profile, words in scored:
        share = 0.0
        if best:
            share = confidence_of_best * score / best
        matches.append(Match(profile, score, share, words))
    return matches


def rareness(stem: str, profiles: Sequence[Profile]) -> float:
    """0 to 1: a word of a single agent weighs most, a word of all agents nothing."""
    total = len(profiles)
    having = sum(1 for profile in profiles if stem in profile.weights)
    if not having:
        return 0.0
    return math.log(1 + total / having) / math.log(1 + total)


def confidence(score: float, other: float) -> float:
    if score <= other:
        return 0.0
    strength = min(1.0, score / TELLING)
    # Twice the points of the next one are as clear a lead as can be.
    lead = min(1.0, 2 * (score - other) / score)
    return strength * lead


def capability_hits(profiles: Sequence[Profile], text: str) -> list[tuple[Profile, str, frozenset[str]]]:
    """(agent, capability, its words) for capabilities whose words all occur in the text."""
    stems = set(list_word_stems(text))
    hits = []
    for profile in profiles:
        for capability, words in profile.capabilities:
            if words and words <= stems:
                hits.append((profile, capability, words))
    return hits


def sharpest(winners: list[tuple[Profile, str]], profiles: Sequence[Profile], text: str) -> list[tuple[Profile, str]]:
    """Of the agents with a matching capability, those whose other words match best. All of a tie are kept."""
    able = [profile for profile, _ in winners]
    scores = dict.fromkeys([profile.id for profile in able], 0.0)
    for match in rank_by_words(profiles, text, able):
        scores[match.profile.id] = match.score
    best = max(scores.values())
    return [winner for winner in winners if scores[winner[0].id] == best]


def able(profiles: Sequence[Profile], capability: str) -> list[Profile]:
    """Agents with this capability: the same text, else one with all its words, else one that shares
    a word.
    """
    capability_words = frozenset(list_word_stems(capability))
    phrase = capability.strip().lower()
    same = []
    whole = []
    some = []
    for profile in profiles:
        if any(text.strip().lower() == phrase for text, _ in profile.capabilities):
            same.append(profile)
        # Without words it would be a part of every other capability.
        if not capability_words:
            continue
        if any(capability_words <= words for _, words in profile.capabilities):
            whole.append(profile)
        if any(words and words <= capability_words for _, words in profile.capabilities):
            some.append(profile)
    return same or whole or some


def shortlist(profiles: Sequence[Profile], text: str, size: int) -> list[Profile]:
    """At most `size` agents, those that share words first; all of them if they are few."""
    if len(profiles) <= size:
        return list(profiles)
    matches = rank_by_words(profiles, text)[:size]
    chosen = {match.profile.id: match.profile for match in matches}
    for profile in profiles:
        chosen.setdefault(profile.id, profile)
    return list(chosen.values())[:size]
