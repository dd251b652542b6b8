"""Chooses the agent for a task that is delegated by capability, and explains the choice."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from . import matching
from .profiles import Profile, list_profiles
from .router import SHOWN, Candidate, Figure, Route, TrackRecord, build_route


def for_capability(
    user: Any,
    capability: str,
    task: str,
    *,
    excluding: Collection[int] = (),
    track_record: TrackRecord | None = None,
    also_for: Collection[int] = (),
) -> Route:
    """Ranks the agents with the capability by words of the task and by their track record.

    `excluding` holds ids of agents that already work above the caller. `also_for` as in `list_profiles`.
    """
    able = matching.able(list_profiles(user, also_for), capability)
    profiles = [profile for profile in able if profile.id not in excluding]
    if not able:
        return Route(None, "capability", reason=f"“{capability}”: nobody has this capability.")
    if not profiles:
        names = ", ".join(profile.name for profile in able)
        return Route(None, "capability", reason=f"“{capability}”: {names} is already working above this call.")
    figures: Mapping[int, Figure] = {}
    if track_record:
        figures = track_record([profile.id for profile in profiles])
    candidates = []
    for profile, score, reason in weigh_candidates(profiles, task, figures):
        candidates.append(Candidate(profile.name, score, reason))
    candidates.sort(key=lambda candidate: (-candidate.score, candidate.agent))
    best = candidates[0]
    chosen = next(profile for profile in profiles if profile.name == best.agent)
    return build_route(chosen, "capability", candidates[:SHOWN], best.reason)


def weigh_candidates(
    profiles: Sequence[Profile], task: str, figures: Mapping[int, Figure]
) -> list[tuple[Profile, float, str]]:
    """(profile, score, reason): half for matching words, half for the success score; an unknown score
    counts as average.
    """
    points = {match.profile.id: match.score for match in matching.rank_by_words(profiles, task)}
    top = max(points.values(), default=0.0) or 1.0
    weights = []
    for profile in profiles:
        fit = 0.0
        if profile.id in points:
            fit = points[profile.id] / top
        figure = figures.get(profile.id)
        if figure:
            success = figure.success_score
            record = f"success score {success:.2f}, typically {figure.p50_s:.1f} s"
        else:
            success = 0.5
            record = "no runs yet"
        score = round((fit + success) / 2, 4)
        reason = f"has the capability; words {fit:.2f}; {record}"
        weights.append((profile, score, reason))
    return weights
