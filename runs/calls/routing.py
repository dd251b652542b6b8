"""Which agent gets a message, what asking that took, and the row and the event that say why."""

from decimal import Decimal
from typing import Any

from django.db.models import F

from agents.models import Agent
from registry.routing import router
from runs.events import record as events
from runs.figures import track_records
from runs.lifecycle import budgets
from runs.models import RouteDecision, Run


def choose(user: Any, text: str, *, run: Run | None = None, session_agent: Agent | None = None) -> router.Route:
    """The router's answer; of equally good agents the one that has done better lately.

    Where a model is asked, `run` pays for it; without one nothing is written (a dry run).
    """
    purse = Purse(user, run)
    return router.route(user, text, session_agent=session_agent, track_record=track_records.lately, purse=purse)


class Purse:
    """A person's budgets: when one is used up, a route is found without a model."""

    def __init__(self, user: Any, run: Run | None) -> None:
        self.user = user
        self.run = run

    def is_open(self) -> bool:
        run = self.run or Run(principal=self.user)
        return not any(budgets.overdrawn(budget, run) for budget in budgets.covering(run))

    def take(self, input_tokens: int, output_tokens: int, cost: Decimal) -> None:
        """It is the run's, as what its turns take is."""
        if self.run is None:
            return
        spent: dict[str, Any] = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cost": cost}
        Run.objects.filter(pk=self.run.pk).update(**{name: F(name) + number for name, number in spent.items()})
        for name, number in spent.items():
            setattr(self.run, name, getattr(self.run, name) + number)


def record(run: Run, route: router.Route) -> None:
    """Keep the decision with the run that it was made for."""
    told = route.as_json()
    RouteDecision.objects.create(run=run, **(told | {"agent": route.agent}))
    events.record(run, "run.routed", told)
