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
    rows = AGENT_GRANTS.all(agent=run.agent_id) if run.agent_id else CHAIN_GRANTS.all(version=run.chain_version_id)
    grants = {tool: Grant(*values) for tool, *values in rows}
    return grants | {tool.id: OF_CALLER for tool in tools if tool.kind == caller_tools.KIND}


def find_unshared_tools(grants: dict[int, Grant], run: Run, above: set[int]) -> set[int]:
    """The tools that the run's person may no longer use, or that an owner of an agent or chain above the
    run may not use.
    """
    places = {tool: (grant.owner, grant.team) for tool, grant in grants.items()}
    return find_closed_rows(places, [run.principal_id, *above])


KINDS = frozenset({"device", "connector"})  # on the devices of the run's person, records included, and their accounts
COLLECTION = "knowledge"


def find_unconsented_tools(run: Run, tools: Mapping[str, ToolSpec], above: set[int]) -> frozenset[str]:
    """Names of tools that the person has not approved yet. `above`: the other owners above the run. No query for an
    agent or chain of the person, or of the site.
    """
    own = frozenset(name for name, tool in tools.items() if tool.kind in KINDS)
    collections = {name: tool.source["collection"] for name, tool in tools.items() if may_ask_devices(tool)}
    if not (own or collections) or not (above or others_among([authors.own(run)], run.principal_id)):
        return frozenset()
    if collections:
        folders = CollectionFolder.objects.filter(owner=run.principal_id, collection__in=set(collections.values()))
        with_folders = set(folders.order_by().values_list("collection_id", flat=True))
        own |= {name for name, collection in collections.items() if collection in with_folders}
    return own - find_consented_tools(run, {name: tools[name] for name in own}) if own else own


def may_ask_devices(tool: ToolSpec) -> bool:
    """Folders of devices have no versions, so a grant of one version asks none."""
    return tool.kind == COLLECTION and "collection" in tool.source and not tool.pinned_version


def find_consented_tools(run: Run, tools: Mapping[str, ToolSpec]) -> set[str]:
    """What the person approved for this version. Below another run it counts for the children of that run alone,
    because another author above would read the answers too. It counts for the definition that was shown: a tool that
    was changed since asks again.
    """
    is_line_known = run.parent_id is not None or authors.is_first(run.parent_id, run.trigger)
    if not is_line_known or not (run.version_id or run.chain_version_id):
        return set()
    approved = Approval.objects.filter(
        status=Approval.Status.APPROVED, decided_by=run.principal_id, tool__in=tools,
        call__kind__in=[*KINDS, COLLECTION],
        run__principal=run.principal_id, run__version=run.version_id, run__chain_version=run.chain_version_id,
        run__parent=run.parent_id,
    )  # fmt: skip
    if run.parent_id is None:
        approved = approved.exclude(run__trigger__in=authors.STARTED_BY_RUNS)  # their parent was deleted
    answers = list(approved.order_by().values_list("tool", "definition__hash"))
    if not answers:
        return set()
    hashes = {name: bindings.hash_tool(tools[name]) for name in {name for name, _ in answers}}
    return {name for name, hash in answers if hash == hashes[name]}


def find_tools_closed_to_visitors(run: Run, tools: Mapping[str, ToolSpec]) -> frozenset[str]:
    """Names. With an embed that was deleted or switched off all are closed, except what the runner offers itself."""
    if run.embed is None:
        return frozenset()
    opened = Embed.objects.filter(pk=run.embed, enabled=True).values_list("tools", flat=True).first() or ()
    granted = {name: tool for name, tool in tools.items() if tool.id}
    return frozenset(
        name for name, tool in granted.items() if not visitors.is_open(name, tool.kind, tool.source, opened)
    )


def choose_deciders(run: Run, grant: Grant | None) -> dict[str, Any]:
    """Columns of the approval. Others decide only where the run's person is among them: in the team of the agent or
    chain, or its owner. Elsewhere the person decides alone, whatever a stranger's grant says."""
    if grant is None or (grant.decides == ToolGrant.Decider.STARTER and not grant.not_starter):
        return {}
    subject = run.agent or (run.chain_version.chain if run.chain_version else None)
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
    return Membership.objects.filter(user_id=user_id, team_id=subject.team_id).exists() if subject.team_id else False
