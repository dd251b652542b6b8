"""Which tools a run may use now, and who decides about their calls. All of it is read again on each turn.

- The grants of its agent or chain.
- Tools that somebody of this run may not use any more.
- Tools on a person's devices and accounts that an agent or chain of somebody else uses: the person decides first. The
  author chose the modes of the grants, and tools that can send what these read anywhere. So the person whose device
  or account it is approves the first call of each such tool, once for each published version. A collection with
  folders of the person's own devices is such a tool: its search asks the devices. See docs/adr/0112.
- Tools that are closed to visitors.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import IntegerField

from agents.models import Membership, ToolGrant
from agents.models.team import find_closed_rows, others_among
from agents.tools import ToolSpec
from knowledge.models import CollectionFolder
from plumbing.statements import Select
from runs.intake import authors, caller_tools
from runs.models import Approval, Embed, Run
from runs.rules import visitors

from . import bindings

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
    if run.agent_id:
        rows = AGENT_GRANTS.all(agent=run.agent_id)
    else:
        rows = CHAIN_GRANTS.all(version=run.chain_version_id)
    grants = {tool_id: Grant(*values) for tool_id, *values in rows}
    for tool in tools:
        if tool.kind == caller_tools.KIND:
            grants[tool.id] = OF_CALLER
    return grants


def find_unshared_tools(grants: dict[int, Grant], run: Run, above: set[int]) -> set[int]:
    """The tools that the run's person may no longer use, or that an owner of an agent or chain above the
    run may not use.
    """
    owners = {tool_id: (grant.owner, grant.team) for tool_id, grant in grants.items()}
    return find_closed_rows(owners, [run.principal_id, *above])


KINDS = frozenset({"device", "connector"})  # on the devices of the run's person, records included, and their accounts
COLLECTION = "knowledge"


def find_unconsented_tools(run: Run, tools: Mapping[str, ToolSpec], above: set[int]) -> frozenset[str]:
    """Names of tools that the person has not approved yet. `above`: the other owners above the run. No query for an
    agent or chain of the person, or of the site.
    """
    asking = {name for name, tool in tools.items() if tool.kind in KINDS}
    collections = {name: tool.source["collection"] for name, tool in tools.items() if may_ask_devices(tool)}
    if not asking and not collections:
        return frozenset()
    if not above and not others_among([authors.own(run)], run.principal_id):
        return frozenset()
    if collections:
        folders = CollectionFolder.objects.filter(owner=run.principal_id, collection__in=set(collections.values()))
        with_folders = set(folders.order_by().values_list("collection_id", flat=True))
        asking |= {name for name, collection in collections.items() if collection in with_folders}
    if not asking:
        return frozenset()
    approved = find_consented_tools(run, {name: tools[name] for name in asking})
    return frozenset(asking - approved)


def may_ask_devices(tool: ToolSpec) -> bool:
    """Folders of devices have no versions, so a grant of one version asks none."""
    if tool.kind != COLLECTION or tool.pinned_version:
        return False
    return "collection" in tool.source


def find_consented_tools(run: Run, tools: Mapping[str, ToolSpec]) -> set[str]:
    """What the person approved for this version. Below another run it counts for the children of that run alone,
    because another author above would read the answers too. It counts for the definition that was shown: a tool that
    was changed since asks again.
    """
    is_line_known = run.parent_id is not None or authors.is_first(run.parent_id, run.trigger)
    has_version = bool(run.version_id or run.chain_version_id)
    if not is_line_known or not has_version:
        return set()
    approved = Approval.objects.filter(
        status=Approval.Status.APPROVED,
        decided_by=run.principal_id,
        tool__in=tools,
        call__kind__in=[*KINDS, COLLECTION],
        run__principal=run.principal_id,
        run__version=run.version_id,
        run__chain_version=run.chain_version_id,
        run__parent=run.parent_id,
    )
    if run.parent_id is None:
        approved = approved.exclude(run__trigger__in=authors.STARTED_BY_RUNS)  # their parent was deleted
    answers = list(approved.order_by().values_list("tool", "definition__hash"))
    if not answers:
        return set()
    approved_names = {name for name, _ in answers}
    current_hashes = {name: bindings.hash_tool(tools[name]) for name in approved_names}
    return {name for name, approved_hash in answers if approved_hash == current_hashes[name]}


def find_tools_closed_to_visitors(run: Run, tools: Mapping[str, ToolSpec]) -> frozenset[str]:
    """Names. With an embed that was deleted or switched off all are closed, except what the runner offers itself."""
    if run.embed is None:
        return frozenset()
    embeds = Embed.objects.filter(pk=run.embed, enabled=True)
    opened = embeds.values_list("tools", flat=True).first() or ()
    closed = set()
    for name, tool in tools.items():
        if tool.id and not visitors.is_open(name, tool.kind, tool.source, opened):
            closed.add(name)
    return frozenset(closed)


def choose_deciders(run: Run, grant: Grant | None) -> dict[str, Any]:
    """Columns of the approval. Others decide only where the run's person is among them: in the team of the agent or
    chain, or its owner. Elsewhere the person decides alone, whatever a stranger's grant says."""
    if grant is None:
        return {}
    if grant.decides == ToolGrant.Decider.STARTER and not grant.not_starter:
        return {}
    subject: Any = run.agent
    if subject is None and run.chain_version is not None:
        subject = run.chain_version.chain
    if subject is None or not is_among(run.principal_id, subject):
        return {}
    return {
        "decides": grant.decides,
        "decider_id": subject.owner_id,
        "decider_team_id": subject.team_id,
        "decider_role": grant.decider_role,
        "not_starter": grant.not_starter,
    }


def is_among(user_id: Any, subject: Any) -> bool:
    if subject.owner_id == user_id:
        return True
    if not subject.team_id:
        return False
    return Membership.objects.filter(user_id=user_id, team_id=subject.team_id).exists()
