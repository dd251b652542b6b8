"""Tools on a person's devices and accounts that an agent or chain of somebody else uses: the person decides first.

The author chose the modes of the grants, and tools that can send what these read anywhere. So the person whose device
or account it is approves the first call of each such tool, once for each published version. A collection with folders
of the person's own devices is such a tool: its search asks the devices. See docs/adr/0112.
"""

from collections.abc import Mapping

from agents.models.team import others_among
from agents.tools import ToolSpec
from knowledge.models import CollectionFolder
from runs.intake import authors
from runs.models import Approval, Run

from . import bindings

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
