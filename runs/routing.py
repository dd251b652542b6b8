"""Which agent gets a message, and the row and the event that say why."""

from typing import Any

from agents.models import Agent
from registry import router

from . import events, track_records
from .models import RouteDecision, Run


def choose(user: Any, text: str, *, session_agent: Agent | None = None) -> router.Route:
    """The router's answer; of equally good agents the one that has done better lately. Writes nothing."""
    return router.route(user, text, session_agent=session_agent, track_record=track_records.lately)


def record(run: Run, route: router.Route) -> None:
    """Keep the decision with the run that it was made for."""
    told = route.as_json()
    RouteDecision.objects.create(run=run, **(told | {"agent": route.agent}))
    events.record(run, "run.routed", told)
