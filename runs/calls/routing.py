"""Routes a message to an agent, and records the decision, its cost and its event."""

from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import F

from agents.models import Agent
from registry.llm.bids import Bid
from registry.routing import router
from runs.events import record as events
from runs.exceptions import RunEnded, RunWaits
from runs.intake import authors
from runs.models import RouteDecision, Run
from runs.models.figures import track_records
from runs.queue import budgets


def choose_route(user: Any, text: str, *, run: Run | None = None, session_agent: Agent | None = None) -> router.Route:
    """The router's answer; among equally good agents the one with the better recent record.

    If a model is asked, `run` pays for it; without a run nothing is written (a dry run).
    """
    others = authors.others(run) if run else ()
    return router.route(
        user,
        text,
        session_agent=session_agent,
        track_record=track_records.lately,
        purse=Purse(user, run),
        also_for=others,
    )


class Purse:
    """The user's budgets: when one is used up, routing uses no model."""

    def __init__(self, user: Any, run: Run | None) -> None:
        self.run = run
        self.watch = budgets.Watch(run or Run(principal=user))

    def hold(self, bid: Bid) -> int | None:
        """The longest answer the budgets allow, 0 if none; None without a limit."""
        try:
            return self.watch.hold(lambda: bid)
        except (RunEnded, RunWaits):
            return 0

    def release(self) -> None:
        self.watch.release()

    @transaction.atomic
    def take(self, input_tokens: int, output_tokens: int, cost: Decimal) -> None:
        """The cost is added to the run, like that of its turns."""
        self.watch.settle(input_tokens + output_tokens, cost)
        if self.run is None:
            return
        spent: dict[str, Any] = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cost": cost}
        sums = {name: F(name) + number for name, number in spent.items()}
        Run.objects.filter(pk=self.run.pk).update(**sums)
        for name, number in spent.items():
            before = getattr(self.run, name)
            setattr(self.run, name, before + number)


def record_route(run: Run, route: router.Route) -> None:
    """Store the decision with its run."""
    decision = route.as_json()
    columns = {**decision, "agent": route.agent}
    RouteDecision.objects.create(run=run, **columns)
    events.record_event(run, "run.routed", decision)
