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

GRACE_S = 5.0  # added to the function's own limit, for queueing and transport


def save_function_tool(function: StoredFunction, version: FunctionVersion) -> Tool:
    """Create or update the tool with the function's name. Raises Conflict if another tool has the
    name.

    Publishing a function without a live version enables its tool again; a tool that a user disabled
    stays disabled.
    """
    require_free_name(function)
    tool = find_function_tool(function.pk) or Tool(kind=Tool.Kind.FUNCTION)
    tool.enabled = tool.enabled or not StoredFunction.objects.filter(pk=function.pk, published__isnull=False).exists()
    spec = version.spec
    tool.name, tool.owner, tool.team = function.name, function.owner, function.team
    tool.description, tool.effect = spec["description"], FunctionSpec.model_validate(spec).real_effect
    tool.input_schema, tool.output_schema = spec["input_schema"], spec["output_schema"]
    tool.deadline_s = spec["timeout"] + GRACE_S
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
    if tool.kind != Tool.Kind.FUNCTION or number == tool.source.get("version"):
        return replace(tool, pinned_version=number)
    rows = FunctionVersion.objects.filter(function_id=tool.source.get("function"), number=number)
    spec = rows.values_list("spec", flat=True).first()
    if spec is None:
        return replace(tool, pinned_version=number)  # the call reports that the version was deleted
    effect = FunctionSpec.model_validate(spec).real_effect
    return replace(tool, pinned_version=number, effect=effect, untrusted=bool(spec["allowed_hosts"]))


def require_free_name(function: StoredFunction) -> None:
    """Raises Conflict if a tool of another kind or of another function has the name, as publishing
    would then fail.
    """
    own = find_function_tool(function.pk)
    others = Tool.objects.filter(name=function.name).exclude(pk=own.pk if own else None)
    of_team = others.filter(team=function.team) if function.team_id else others.none()
    if namesake := (others.filter(owner=function.owner) | of_team).first():
        raise Conflict(
            f"A {namesake.kind} tool named “{function.name}” already exists.",
            code="name_taken",
            hint="Choose another name for the function.",
        )


def find_function_tool(function_id: int | None) -> Tool | None:
    return Tool.objects.filter(kind=Tool.Kind.FUNCTION, source__function=function_id).first() if function_id else None


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
    tool = find_function_tool(function.pk)
    grants = ToolGrant.objects.filter(tool=tool).select_related("agent", "chain") if tool else []
    uses = [as_user(grant, user) for grant in grants]
    steps = ChainStep.objects.filter(target_kind=ChainStep.Target.TOOL, target=function.name).select_related("chain")
    if function.owner_id is not None:
        steps = steps.filter(chain__owner=function.owner_id) | steps.filter(
            chain__team__isnull=False, chain__team=function.team_id
        )
    uses += [
        {
            "kind": "step",
            "name": name_visible_row(step.chain, user, f"/{step.key}"),
            "mode": "",
            "version": step.target_version,
        }
        for step in steps
    ]
    uses += [
        {"kind": "hook", "name": name_visible_row(hook, user), "mode": hook.place, "version": hook.pinned_version}
        for hook in Hook.objects.filter(tool=tool).select_related("tool")
    ]
    return uses


def as_user(grant: ToolGrant, user: Any) -> dict[str, Any]:
    kind = "agent" if grant.agent else "chain"
    name = name_visible_row(grant.agent or grant.chain, user)
    return {"kind": kind, "name": name, "mode": grant.mode, "version": grant.pinned_version}


def name_visible_row(row: Any, user: Any, part: str = "") -> str:
    return f"{row}{part}" if is_seen(row, user) else ""
