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

# Candidates kept with a decision.
SHOWN = 5
# Shared words quoted in a reason.
WORDS = 6
# Longest reason, in characters.
REASON = 500


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
        name = None
        if self.agent:
            name = self.agent.name
        candidates = [asdict(candidate) for candidate in self.candidates]
        return {"agent": name, "method": self.method, "reason": self.reason, "candidates": candidates}


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
            # Not configured, or failing.
            continue
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
    if not hits:
        return Proposal([], [], "")
    longest = max(len(words) for _, _, words in hits)
    winners = [(profile, capability) for profile, capability, words in hits if len(words) == longest]
    able = {profile.id: profile for profile, _ in winners}
    candidates = []
    for profile in able.values():
        candidates.append(Candidate(profile.name, 1.0, f"can do {what_it_can(profile, winners)}"))
    if len(able) > 1:
        sharpest = matching.sharpest(winners, profiles, text)
        able = {profile.id: profile for profile, _ in sharpest}
    return Proposal(list(able.values()), candidates, candidates[0].reason)


def what_it_can(profile: Profile, winners: Sequence[tuple[Profile, str]]) -> str:
    quoted = [f"“{capability}”" for able, capability in winners if able.id == profile.id]
    return ", ".join(quoted)


def by_classifier(profiles: Sequence[Profile], text: str, asker: Asker) -> Proposal | None:
    """The choice of the configured model. If it chooses no agent, the router does not look further."""
    shown_to_it = matching.shortlist(profiles, text, classifier.AT_MOST)
    verdict = classifier.classify(asker.user, text, shown_to_it, asker.purse)
    if verdict is None:
        return None
    reason = verdict.reason or "the model found no fitting agent"
    chosen = [profile for profile in profiles if profile.name == verdict.agent]
    candidates = []
    if chosen:
        candidates.append(Candidate(verdict.agent, verdict.confidence, verdict.reason))
    return Proposal(chosen, candidates, reason, is_final=True)


def by_embeddings(profiles: Sequence[Profile], text: str, asker: Asker) -> Proposal | None:
    """The nearest agent, if an embedding model is configured and the distance is small enough."""
    ranked = embeddings.rank_by_meaning(asker.user, text, profiles)
    if ranked is None:
        return None
    candidates = []
    for profile, score in ranked[:SHOWN]:
        candidates.append(Candidate(profile.name, round(score, 4), "similar in meaning"))
    return Proposal(embeddings.winners(ranked), candidates, "nearest in meaning")


def by_words(profiles: Sequence[Profile], text: str, asker: Asker) -> Proposal | None:
    """The agent whose description shares the most distinctive words, if it leads clearly."""
    ranked = matching.rank_by_words(profiles, text)
    if not ranked:
        return Proposal([], [], "")
    candidates = []
    for match in ranked[:SHOWN]:
        words = ", ".join(match.words[:WORDS])
        reason = f"shares {words}"[:REASON]
        candidates.append(Candidate(match.profile.name, round(match.confidence, 4), reason))
    best = ranked[0]
    winners = []
    if best.confidence >= matching.SURE:
        winners = [match.profile for match in ranked if match.score == best.score]
    return Proposal(winners, candidates, candidates[0].reason)


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
    figures: Mapping[int, Figure] = {}
    if track_record:
        figures = track_record([profile.id for profile in winners])

    def rank(profile: Profile) -> tuple[float, float, str]:
        figure = figures.get(profile.id)
        if figure is None:
            # An agent without runs counts as average.
            return (-0.5, 0.0, profile.name)
        return (-figure.success_score, figure.p50_s, profile.name)

    return sorted(winners, key=rank)


def explain_route(winners: list[Profile], proposal: Proposal) -> str:
    first = winners[0]
    # The chosen one may be missing among the candidates, which are only the first few.
    reasons = [candidate.reason for candidate in proposal.candidates if candidate.agent == first.name]
    reasons.append(proposal.reason)
    reason = reasons[0]
    if len(winners) == 1:
        return reason
    others = ", ".join(profile.name for profile in winners[1:4])
    return f"{reason}; equally good: {others}; chosen by track record, then by name"


CHOSEN = Select(
    lambda at: Agent.objects.select_related("published", "provider").published().filter(pk=at.agent)[:1],
    agent=IntegerField(),
)


def build_route(profile: Profile, method: str, candidates: list[Candidate], reason: str) -> Route:
    """The chosen agent; None if it was deleted or switched off a moment ago."""
    agent = CHOSEN.first(agent=profile.id)
    if agent is None:
        gone = f"“{profile.name}” was chosen but has been deleted or switched off since."
        return Route(None, "nobody", candidates, gone)
    return Route(agent, method, candidates, reason[:REASON])
