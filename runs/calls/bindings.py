"""What a question was about. A yes is for the definition that was shown to the person who said it.

A stored function's versions never change, so the approved version is what runs, whatever is published meanwhile.
Nothing else can be pinned: if it was changed, the call asks again.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from agents.models import Agent, Chain, Tool
from agents.models.agent import live_definition
from agents.schema import hash_json
from agents.tools import ToolSpec
from connectors.models import Connection
from functions.models import Execution, FunctionVersion
from functions.spec import FunctionSpec

JSON = Any
Target = tuple[str, int, int | None]  # "agent" or "chain", its id, and its version if that is pinned
TARGETS: dict[str, Any] = {"agent": Agent, "chain": Chain}


def of_tool(tool: ToolSpec) -> dict[str, JSON]:
    """The binding of a call, as its approval stores it."""
    binding: dict[str, JSON] = {"hash": hash_tool(tool), "effect": tool.effect}
    if tool.kind == Tool.Kind.FUNCTION and "function" in tool.source:
        number = tool.pinned_version or tool.source.get("version")
        versions = FunctionVersion.objects.filter(function=tool.source["function"], number=number)
        binding["version"] = versions.values("function", "number", "sha256").first()
    return binding


def hash_tool(tool: ToolSpec) -> str:
    """A hash of all that decides what a call of this tool does."""
    parts = [
        tool.name, tool.kind, tool.definition_hash, tool.effect, tool.source, tool.pinned_version, tool.input_schema,
        tool.untrusted,
    ]  # fmt: skip
    if tool.kind in TARGETS:
        target = (tool.kind, tool.source.get(tool.kind) or 0, None)
        parts.append(collect_published_content([target]))
    if "connection" in tool.source:
        connections = Connection.objects.filter(pk=tool.source["connection"])
        parts.append(connections.values_list("provider", "base_url", "config").first())
    return hash_json(parts)


def of_target(kind: str, pk: int, number: int | None) -> dict[str, JSON]:
    """The binding of a step that starts an agent or a chain."""
    content = collect_published_content([(kind, pk, number)])
    return {"hash": hash_json(content)}


def collect_published_content(targets: Iterable[Target]) -> list[JSON]:
    """The published content of these agents and chains, of their tools, and of all agents and chains below them."""
    content: list[JSON] = []
    looked: set[Target] = set()
    waiting = list(targets)
    while waiting:
        target = waiting.pop()
        if target in looked:
            continue
        looked.add(target)
        kind, pk, number = target
        version = find_target_version(kind, pk, number)
        if version is None:
            content.append([kind, pk, None])
            continue
        spec = version.read_spec()
        granted_ids = [grant.tool_id for grant in spec.grants]
        tools = list(Tool.objects.filter(pk__in=granted_ids).order_by("pk"))
        definitions = [[tool.pk, live_definition(tool)] for tool in tools]
        content.append([kind, pk, version.sha256, definitions])
        for tool in tools:
            if tool.kind in TARGETS:
                waiting.append((tool.kind, tool.source.get(tool.kind) or 0, None))
        if kind == "chain":
            for step in spec.steps:
                if step.target_kind in TARGETS:
                    waiting.append((step.target_kind, step.target_id or 0, step.target_version))
    return sorted(content, key=lambda entry: (entry[0], entry[1], str(entry[2])))


def find_target_version(kind: str, pk: int, number: int | None) -> Any:
    row = TARGETS[kind].objects.select_related("published").filter(pk=pk).first()
    if row is None:
        return None
    if number:
        return row.versions.filter(number=number).first()
    return row.published


def approved_tool(tool: ToolSpec, binding: dict[str, JSON]) -> ToolSpec | None:
    """The tool as it was approved; None if it is another by now, so that a person has to be asked again."""
    version = binding.get("version")
    if version:
        return at_version(tool, version)
    if binding.get("hash") != hash_tool(tool):
        return None
    return tool


def at_version(tool: ToolSpec, version: dict[str, JSON]) -> ToolSpec | None:
    """The tool with this version of its function. None if that was deleted or withdrawn, or if the name belongs to
    another function by now.
    """
    if tool.kind != Tool.Kind.FUNCTION or tool.source.get("function") != version["function"]:
        return None
    row = FunctionVersion.objects.filter(**version).values("pk", "spec", "sha256").first()
    if row is None or is_withdrawn(row["pk"]):
        return None
    spec = FunctionSpec.model_validate(row["spec"])
    source = {**tool.source, "version": version["number"], "id": row["pk"], "sha256": row["sha256"]}
    return replace(
        tool,
        source=source,
        pinned_version=version["number"],
        effect=spec.real_effect,
        untrusted=bool(spec.allowed_hosts),
        input_schema=spec.input_schema,
        output_schema=spec.output_schema,
    )


def is_withdrawn(version: int) -> bool:
    """A version is withdrawn for a forbidden system call, which stays in the history of its executions."""
    violations = Execution.objects.filter(version=version, status="violation", error__type="SystemCall")
    return violations.exists()
