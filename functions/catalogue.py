"""The tool catalogue entry of a published function, and what uses it."""

from dataclasses import replace
from typing import Any

from django.db import transaction

from agents.exceptions import Conflict
from agents.models import ChainStep, Hook, Tool, ToolGrant
from agents.models.agent import tool_changed
from agents.sharing import is_seen
from agents.tools import ToolSpec
from functions.models import FunctionVersion, StoredFunction
from functions.spec import FunctionSpec

# Added to the function's own limit, for queueing and transport.
GRACE_S = 5.0


def save_function_tool(function: StoredFunction, version: FunctionVersion) -> Tool:
    """Create or update the tool with the function's name. Raises Conflict if another tool has the
    name.

    Publishing a function without a live version enables its tool again; a tool that a user disabled
    stays disabled.
    """
    require_free_name(function)
    tool = find_function_tool(function.pk) or Tool(kind=Tool.Kind.FUNCTION)
    if not tool.enabled:
        is_live = StoredFunction.objects.filter(pk=function.pk, published__isnull=False).exists()
        tool.enabled = not is_live
    spec = version.spec
    tool.name = function.name
    tool.owner = function.owner
    tool.team = function.team
    tool.description = spec["description"]
    tool.effect = FunctionSpec.model_validate(spec).real_effect
    tool.input_schema = spec["input_schema"]
    tool.output_schema = spec["output_schema"]
    tool.deadline_s = spec["timeout"] + GRACE_S
    # Whatever a host answers is foreign text.
    tool.untrusted = bool(spec["allowed_hosts"])
    tool.source = {"function": function.pk, "version": version.number, "id": version.pk, "sha256": version.sha256}
    tool.freeze_hash()
    tool.save()
    tool_changed(tool)
    return tool


def as_pinned(tool: ToolSpec, number: int) -> ToolSpec:
    """The tool as it describes this version of its function: another version may have more access
    than the live one.
    """
    function_id = tool.source.get("function")
    if tool.kind != Tool.Kind.FUNCTION or number == tool.source.get("version"):
        return replace(tool, pinned_version=number)
    rows = FunctionVersion.objects.filter(function_id=function_id, number=number)
    spec = rows.values_list("spec", flat=True).first()
    if spec is None:
        # The call reports that the version was deleted.
        return replace(tool, pinned_version=number)
    effect = FunctionSpec.model_validate(spec).real_effect
    untrusted = bool(spec["allowed_hosts"])
    return replace(tool, pinned_version=number, effect=effect, untrusted=untrusted)


def require_free_name(function: StoredFunction) -> None:
    """Raises Conflict if a tool of another kind or of another function has the name, as publishing
    would then fail.
    """
    namesakes = Tool.objects.filter(name=function.name)
    own = find_function_tool(function.pk)
    if own is not None:
        namesakes = namesakes.exclude(pk=own.pk)
    in_reach = namesakes.filter(owner=function.owner)
    if function.team_id:
        in_reach |= namesakes.filter(team=function.team)
    namesake = in_reach.first()
    if namesake is not None:
        raise Conflict(
            f"A {namesake.kind} tool named “{function.name}” already exists.",
            code="name_taken",
            hint="Choose another name for the function.",
        )


def find_function_tool(function_id: int | None) -> Tool | None:
    if not function_id:
        return None
    return Tool.objects.filter(kind=Tool.Kind.FUNCTION, source__function=function_id).first()


@transaction.atomic
def withdraw_version(function_id: int, version_id: int) -> bool:
    """Withdraw this version if it is the live one: no agent or chain can call it until a user
    publishes again.
    """
    if not StoredFunction.objects.filter(pk=function_id, published=version_id).update(published=None):
        return False
    tool = find_function_tool(function_id)
    if tool:
        tool.enabled = False
        tool.save(update_fields=["enabled"])
        tool_changed(tool)
    return True


def unlist_tool(function: StoredFunction) -> None:
    tool = find_function_tool(function.pk)
    if tool:
        tool.delete()


def find_function_uses(function: StoredFunction, user: Any) -> list[dict[str, Any]]:
    """Agents and chains with a grant, chain steps that name it, and hooks: [{kind, name, mode, version}].

    Those that this user cannot see have an empty name.
    """
    uses = []
    tool = find_function_tool(function.pk)
    if tool is not None:
        grants = ToolGrant.objects.filter(tool=tool).select_related("agent", "chain")
        uses += [as_user(grant, user) for grant in grants]
    steps = ChainStep.objects.filter(target_kind=ChainStep.Target.TOOL, target=function.name).select_related("chain")
    if function.owner_id is not None:
        # Steps name a tool; somebody else's step of that name means their own.
        of_owner = steps.filter(chain__owner=function.owner_id)
        of_team = steps.filter(chain__team__isnull=False, chain__team=function.team_id)
        steps = of_owner | of_team
    for step in steps:
        name = name_visible_row(step.chain, user, f"/{step.key}")
        uses.append({"kind": "step", "name": name, "mode": "", "version": step.target_version})
    for hook in Hook.objects.filter(tool=tool).select_related("tool"):
        name = name_visible_row(hook, user)
        uses.append({"kind": "hook", "name": name, "mode": hook.place, "version": hook.pinned_version})
    return uses


def as_user(grant: ToolGrant, user: Any) -> dict[str, Any]:
    kind = "agent" if grant.agent else "chain"
    row = grant.agent or grant.chain
    name = name_visible_row(row, user)
    return {"kind": kind, "name": name, "mode": grant.mode, "version": grant.pinned_version}


def name_visible_row(row: Any, user: Any, part: str = "") -> str:
    if not is_seen(row, user):
        return ""
    return f"{row}{part}"
