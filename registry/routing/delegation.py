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
    if not profiles:
        why = "is already working above this call" if able else "has this capability"
        name = ", ".join(profile.name for profile in able) if able else "nobody"
        return Route(None, "capability", reason=f"“{capability}”: {name} {why}.")
    figures = track_record([profile.id for profile in profiles]) if track_record else {}
    scored = sorted(
        (Candidate(one.name, score, reason) for one, score, reason in weigh_candidates(profiles, task, figures)),
        key=lambda one: (-one.score, one.agent),
    )
    chosen = next(profile for profile in profiles if profile.name == scored[0].agent)
    return build_route(chosen, "capability", scored[:SHOWN], scored[0].reason)


def weigh_candidates(
    profiles: Sequence[Profile], task: str, figures: Mapping[int, Figure]
) -> list[tuple[Profile, float, str]]:
    """(profile, score, reason): half for matching words, half for the success score; an unknown score
    counts as average.
    """
    matches = {one.profile.id: one for one in matching.rank_by_words(profiles, task)}
    top = max((one.score for one in matches.values()), default=0.0) or 1.0
    weights = []
    for profile in profiles:
        fit = matches[profile.id].score / top if profile.id in matches else 0.0
        figure = figures.get(profile.id)
        scored = figure.success_score if figure else 0.5
        reason = f"has the capability; words {fit:.2f}; " + (
            f"success score {scored:.2f}, typically {figure.p50_s:.1f} s" if figure else "no runs yet"
        )
        weights.append((profile, round((fit + scored) / 2, 4), reason))
    return weights
