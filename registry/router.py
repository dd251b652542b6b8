"""Which agent gets a message: the session's, else the one whose words fit best. Says why; may say nobody."""

import re
from dataclasses import dataclass
from typing import Any

from agents.models import Agent

WORD = re.compile(r"[a-z0-9]{3,}")
CONFIDENT = 0.2


@dataclass(frozen=True, slots=True)
class Candidate:
    agent: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Route:
    agent: Agent | None
    method: str
    candidates: list[Candidate]
    reason: str


def route(user: Any, text: str, *, session_agent: Agent | None = None, explicit: Agent | None = None) -> Route:
    """Explicit → session's → words of name, description, capabilities and examples."""
    for agent, method in ((explicit, "explicit"), (session_agent, "session")):
        if agent is not None:
            return Route(agent, method, [Candidate(agent.name, 1.0, method)], method)
    said = set(WORD.findall(text.lower()))
    agents = list(Agent.objects.visible_to(user).published().select_related("published", "provider"))
    scored = sorted(((score(agent, said), agent) for agent in agents), key=lambda pair: -pair[0])[:10]
    candidates = [Candidate(agent.name, round(points, 3), "words in common") for points, agent in scored]
    if not scored or scored[0][0] < CONFIDENT:
        return Route(None, "words", candidates, "nobody fits: no agent shares enough words with the message")
    return Route(scored[0][1], "words", candidates, f"its words fit best ({scored[0][0]:.2f})")


def score(agent: Agent, said: set[str]) -> float:
    known = " ".join([agent.name, agent.description, *agent.capabilities, *agent.examples]).lower()
    return len(said & set(WORD.findall(known))) / max(len(said), 1)
