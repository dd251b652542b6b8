"""Whose agents and chains get the answer of a run: the owner of its own, and those of all above it.

Each of them chose the instructions and tools that the answer goes to, so each bounds what the run may read of its
person. See docs/adr/0111.
"""

from typing import Any

from django.utils.translation import gettext_noop as _

from agents.exceptions import Invalid
from agents.models import Agent, Chain
from agents.models.team import find_closed_rows, others_among
from runs.models import Run

STARTED_BY_RUNS = (Run.Trigger.AGENT, Run.Trigger.CHAIN)
NOBODY = 0  # stands for the owners above a run whose parent was deleted
Owner = int | None

ROW = ("parent", "trigger", "principal", "agent", "agent__owner", "chain_version", "chain_version__chain__owner")


def find_run_owners(run: Run) -> tuple[Owner, ...]:
    """The owners (None: the site), that of the run itself first. One query more for a run that another one started."""
    return (own(run), *owners_above(run))


def own(run: Run) -> Owner:
    """The owner of the run's own agent or chain; its person, while no agent has been chosen."""
    if run.agent is not None:
        return run.agent.owner_id
    if run.chain_version is not None:
        return run.chain_version.chain.owner_id
    return run.principal_id


def owners_above(run: Run) -> list[Owner]:
    if is_first(run.parent_id, run.trigger):
        return []
    owners: list[Owner] = []
    is_whole = False
    if run.parent_id:
        for parent, trigger, *row in Run.objects.above(run.parent_id).values_list(*ROW):
            owners.append(owner(*row))
            is_whole = is_whole or is_first(parent, trigger)
    if not is_whole:
        owners.append(NOBODY)
    return owners


def is_first(parent: Any, trigger: str) -> bool:
    return parent is None and trigger not in STARTED_BY_RUNS


def owner(person: int, agent: Any, of_agent: Owner, chain: Any, of_chain: Owner) -> Owner:
    """Of the agent or chain; the person, while no agent has been chosen."""
    if agent:
        return of_agent
    if chain:
        return of_chain
    return person


def above(run: Run) -> set[int]:
    """The owners of what is above a run, without its person. No query for a run that no other one started."""
    return others_among(owners_above(run), run.principal_id)


def others(run: Run) -> set[int]:
    """The same, with the owner of the run's own agent or chain."""
    return others_among(find_run_owners(run), run.principal_id)


def check_callee_shared(parent: Run, row: Agent | Chain) -> None:
    """An agent of somebody else starts only what its owner may use too. Raises Invalid."""
    closed = find_closed_rows({0: (row.owner_id, row.team_id)}, others(parent))
    if closed:
        raise Invalid(
            _("“%(target)s” cannot be used by the owner of the agent or chain that wants to start it.")
            % {"target": row.name},
            code="target_not_visible",
        )
