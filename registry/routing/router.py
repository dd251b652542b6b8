"""Chooses the agent for a message, and explains the choice.

Order: named agent → agent of the session → capability → classifier → embeddings → words → none.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from django.db.models import IntegerField

from agents.exceptions import NotFound
from agents.models import Agent
from plumbing.statements import Select

from . import classifier, embeddings, matching
from .profiles import Profile, list_profiles

SHOWN = 5  # candidates kept with a decision
WORDS = 6  # shared words quoted in a reason
REASON = 500  # longest reason, in characters


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent that was considered. `score` is 0 to 1 and comparable within one decision only."""

    agent: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Route:
    """A decision. `agent` None means that no agent fits, which is a valid outcome."""

    agent: Agent | None
    method: str
    candidates: list[Candidate] = field(default_factory=list)
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """{"agent": its name or None, "method", "reason", "candidates": [{"agent", "score",
        "reason"}]}.
        """
        return {
            "agent": self.agent.name if self.agent else None,
            "method": self.method,
            "reason": self.reason,
            "candidates": [asdict(one) for one in self.candidates],
        }


class Figure(Protocol):
    """Recent track records of agents; supplied by `runs`."""

    @property
    def success_score(self) -> float: ...
    @property
    def p50_s(self) -> float: ...


TrackRecord = Callable[[Collection[int]], Mapping[int, Figure]]


def route(
    user: Any,
    text: str,
    *,
    session_agent: Agent | None = None,
    explicit: Agent | str | None = None,
    track_record: TrackRecord | None = None,
    methods: Sequence[str] | None = None,
    purse: classifier.Purse | None = None,
    also_for: Collection[int] = (),
) -> Route:
    """Choose among the published agents that this user can see; `also_for` as in `list_profiles`.

    Raises NotFound if `explicit` names no such agent. `methods` limits the methods (for
    benchmarks). `purse` pays for asking a model; if it is empty, no model is asked.
    """
    if explicit is not None:
        return route_by_name(user, explicit)
    if session_agent is not None and session_agent.enabled and session_agent.published_id is not None:
        return Route(session_agent, "session", reason="The conversation is with this agent.")
    profiles = list_profiles(user, also_for)
    if not profiles:
        return Route(None, "nobody", reason="There is no published agent that you can use.")
    decision = decide_route(profiles, text, user=user, track_record=track_record, methods=methods, purse=purse)
    if decision.profile is None:
        return Route(None, decision.method, decision.candidates, decision.reason)
    return build_route(decision.profile, decision.method, decision.candidates, decision.reason)


@dataclass(frozen=True, slots=True)
class Decision:
    profile: Profile | None
    method: str
    candidates: list[Candidate]
    reason: str


def decide_route(
    profiles: Sequence[Profile],
    text: str,
    *,
    user: Any = None,
    track_record: TrackRecord | None = None,
    methods: Sequence[str] | None = None,
    purse: classifier.Purse | None = None,
) -> Decision:
    """The first method that is sure decides; the candidates of the last method are recorded in any
    case.
    """
    considered: list[Candidate] = []
    asker = Asker(user, purse)
    for method, ask in METHODS.items():
        if methods is not None and method not in methods:
            continue
        proposal = ask(profiles, text, asker)
        if proposal is None:
            continue  # not configured, or failing
        considered = proposal.candidates or considered
        winners = tie_break(proposal.winners, track_record)
        if winners:
            return Decision(winners[0], method, considered[:SHOWN], explain_route(winners, proposal))
        if proposal.is_final:
            return Decision(None, method, considered[:SHOWN], proposal.reason)
    return Decision(None, "nobody", considered[:SHOWN], "No agent fits this message well enough; name an agent.")


@dataclass(frozen=True, slots=True)
class Asker:
    """The user who asks, and what pays for asking a model."""

    user: Any
    purse: classifier.Purse | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """The result of a method: equally good winners (none if it is not sure), and the candidates."""

    winners: list[Profile]
    candidates: list[Candidate]
    reason: str
    is_final: bool = False


def by_capability(profiles: Sequence[Profile], text: str, asker: Asker) -> Proposal | None:
    """Agents that have a capability whose words all occur in the message; the longest capability
    wins.
    """
    hits = matching.capability_hits(profiles, text)
    best = max((len(words) for _, _, words in hits), default=0)
    winners = [(profile, capability) for profile, capability, words in hits if len(words) == best]
    able = {profile.id: profile for profile, _ in winners}
    shown = [Candidate(one.name, 1.0, f"can do {what_it_can(one, winners)}") for one in able.values()]
    if len(able) > 1:
        able = {profile.id: profile for profile, _ in matching.sharpest(winners, profiles, text)}
    return Proposal(list(able.values()), shown, shown[0].reason if shown else "")


def what_it_can(profile: Profile, winners: Sequence[tuple[Profile, str]]) -> str:
    return ", ".join(f"“{capability}”" for able, capability in winners if able.id == profile.id)


def by_classifier(profiles: Sequence[Profile], text: str, asker: Asker) -> Proposal | None:
    """The choice of the configured model. If it chooses no agent, the router does not look further."""
    shown_to_it = matching.shortlist(profiles, text, classifier.AT_MOST)
    verdict = classifier.classify(asker.user, text, shown_to_it, asker.purse)
    if verdict is None:
        return None
    chosen = [profile for profile in profiles if profile.name == verdict.agent]
    shown = [Candidate(verdict.agent, verdict.confidence, verdict.reason)] if chosen else []
    return Proposal(chosen, shown, verdict.reason or "the model found no fitting agent", is_final=True)


def by_embeddings(profiles: Sequence[Profile], text: str, asker: Asker) -> Proposal | None:
    """The nearest agent, if an embedding model is configured and the distance is small enough."""
    ranked = embeddings.rank_by_meaning(asker.user, text, profiles)
    if ranked is None:
        return None
    shown = [Candidate(one.name, round(score, 4), "similar in meaning") for one, score in ranked[:SHOWN]]
    return Proposal(embeddings.winners(ranked), shown, "nearest in meaning")


def by_words(profiles: Sequence[Profile], text: str, asker: Asker) -> Proposal | None:
    """The agent whose description shares the most distinctive words, if it leads clearly."""
    ranked = matching.rank_by_words(profiles, text)
    shown = [
        Candidate(one.profile.name, round(one.confidence, 4), f"shares {', '.join(one.words[:WORDS])}"[:REASON])
        for one in ranked[:SHOWN]
    ]
    is_sure = bool(ranked) and ranked[0].confidence >= matching.SURE
    winners = [one.profile for one in ranked if one.score == ranked[0].score] if is_sure else []
    return Proposal(winners, shown, shown[0].reason if shown else "")


METHODS: dict[str, Callable[[Sequence[Profile], str, Asker], Proposal | None]] = {
    "capability": by_capability,
    "classifier": by_classifier,
    "embeddings": by_embeddings,
    "words": by_words,
}


def route_by_name(user: Any, explicit: Agent | str) -> Route:
    if isinstance(explicit, Agent):
        return Route(explicit, "explicit", reason="The message was sent to this agent.")
    agent = Agent.objects.select_related("published").for_use(user, explicit)
    if agent.published is None or not agent.enabled:
        raise NotFound(f"The agent “{explicit}” has no published version.", code="not_published")
    return Route(agent, "explicit", reason="The message was sent to this agent.")


def tie_break(winners: list[Profile], track_record: TrackRecord | None) -> list[Profile]:
    """Orders equally good agents by track record, then by name, so that the same message is routed
    the same way.
    """
    if len(winners) < 2:
        return winners
    figures = track_record([profile.id for profile in winners]) if track_record else {}

    def rank(profile: Profile) -> tuple[float, float, str]:
        figure = figures.get(profile.id)
        return (-(figure.success_score if figure else 0.5), figure.p50_s if figure else 0.0, profile.name)

    return sorted(winners, key=rank)


def explain_route(winners: list[Profile], proposal: Proposal) -> str:
    first = next((one.reason for one in proposal.candidates if one.agent == winners[0].name), proposal.reason)
    if len(winners) == 1:
        return first
    others = ", ".join(profile.name for profile in winners[1:4])
    return f"{first}; equally good: {others}; chosen by track record, then by name"


CHOSEN = Select(
    lambda at: Agent.objects.select_related("published", "provider").published().filter(pk=at.agent)[:1],
    agent=IntegerField(),
)


def build_route(profile: Profile, method: str, candidates: list[Candidate], reason: str) -> Route:
    """The chosen agent; None if it was deleted or switched off a moment ago."""
    agent = CHOSEN.first(agent=profile.id)
    if agent is None:
        return Route(
            None, "nobody", candidates, f"“{profile.name}” was chosen but has been deleted or switched off since."
        )
    return Route(agent, method, candidates, reason[:REASON])
