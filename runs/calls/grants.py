"""The grants of a run's agent or chain as they are now. They are read on each turn."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import IntegerField

from agents.models import ToolGrant
from agents.models.team import find_closed_rows
from agents.tools import ToolSpec
from plumbing.statements import Select
from runs.intake import caller_tools
from runs.models import Run

GRANT = ("tool_id", "mode", "tool__enabled", "allow_after_untrusted", "decides", "decider_role", "not_starter",
         "tool__owner_id", "tool__team_id")  # fmt: skip
AGENT_GRANTS = Select(lambda at: ToolGrant.objects.filter(agent_id=at.agent).values_list(*GRANT), agent=IntegerField())
CHAIN_GRANTS = Select(
    lambda at: ToolGrant.objects.filter(chain__versions=at.version).values_list(*GRANT), version=IntegerField()
)


@dataclass(frozen=True, slots=True)
class Grant:
    """One grant with its current settings."""

    mode: str
    is_enabled: bool
    allow_after_untrusted: bool
    decides: str = ToolGrant.Decider.STARTER
    decider_role: str = ""
    not_starter: bool = False
    owner: int | None = None
    team: int | None = None


# The caller executes the call, so the caller's program decides about it.
OF_CALLER = Grant("allow", is_enabled=True, allow_after_untrusted=True)


def load_run_grants(run: Run, tools: Iterable[ToolSpec]) -> dict[int, Grant]:
    """The grants by the ids of their tools."""
    rows = AGENT_GRANTS.all(agent=run.agent_id) if run.agent_id else CHAIN_GRANTS.all(version=run.chain_version_id)
    grants = {tool: Grant(*values) for tool, *values in rows}
    return grants | {tool.id: OF_CALLER for tool in tools if tool.kind == caller_tools.KIND}


def find_unshared_tools(grants: dict[int, Grant], run: Run, above: set[int]) -> set[int]:
    """The tools that the run's person may no longer use, or that an owner of an agent or chain above the
    run may not use.
    """
    places = {tool: (grant.owner, grant.team) for tool, grant in grants.items()}
    return find_closed_rows(places, [run.principal_id, *above])
