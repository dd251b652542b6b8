"""Which tools a model is shown: all of them, or a few and `search_tools` if there are many.

What a search found is shown from then on in this run. It is read from the rows of the calls, so a
restart changes nothing; and it is only ever added at the end, so that a provider's prompt cache
keeps what comes before.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from agents.tools import ToolResult, ToolSpec
from registry import tool_search
from runs.intake import caller_tools
from runs.models import ToolCallRecord
from runs.rules import policy

from . import skills

CORE = 10  # tools that are always shown, besides the built-in ones: the first that were granted
RESULTS, MOST_RESULTS = 10, 20
MOST_FOUND = 60  # tools from searches that are shown at a time
GROUPS = 40  # groups of tools that the description of the search names
SHORT = 200  # characters of a description in a result

SEARCH = ToolSpec(
    id=0,
    name="search_tools",
    kind="builtin",
    description="Search for tools by what they should do. The tools found can be called from the next turn on.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What the tool should do."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    output_schema=None,
    effect="read",
    source={"builtin": "search_tools"},
    definition_hash="search-tools-1",
)

COMPLETE = ToolSpec(
    id=0,
    name="complete",
    kind="builtin",
    description="End this step now and return its result.",
    input_schema={
        "type": "object",
        "properties": {"result": {}},
        "required": ["result"],
        "additionalProperties": False,
    },
    output_schema=None,
    effect="idempotent",
    source={"builtin": "complete"},
    definition_hash="complete-1",
)


@dataclass(frozen=True, slots=True)
class Offer:
    """`names` are the agent's tools that are shown first; `more` follow them."""

    names: list[str]
    more: tuple[ToolSpec, ...] = ()


def with_search(tools: dict[str, ToolSpec], allowed: Iterable[str] | None) -> dict[str, ToolSpec]:
    """The tools, with `search_tools` added if there are more than a model should be shown. `allowed`:
    the names that the step's policy allows; None for all.
    """
    if SEARCH.name in tools:
        return tools
    candidates = {name for name, tool in tools.items() if not skills.is_shown_together(tool)}
    if allowed is not None:
        candidates &= set(allowed)
    if len(candidates) <= settings.TOOLS_SHOWN:
        return tools
    search = replace(SEARCH, description=describe_tool_search(tools))
    return {**tools, SEARCH.name: search}


def describe_tool_search(tools: dict[str, ToolSpec]) -> str:
    """The description of `search_tools`. It counts the tools by the first part of their names, so that a
    model knows what it can search for.
    """
    groups = Counter(name.partition("_")[0] for name in tools)
    largest = sorted(groups.most_common(GROUPS))
    listed = ", ".join(f"{name} ({number})" for name, number in largest)
    return f"{SEARCH.description} There are {len(tools)} tools, here by the first part of their names: {listed}."


def build_offer(executor: Any, records: Sequence[ToolCallRecord]) -> Offer:
    """The tools that the model is shown in the next turn."""
    skill_tools = skills.list_skill_tools(executor)
    search = executor.tools.get(SEARCH.name)
    if not is_search(search):
        return Offer(executor.offered(), skill_tools)
    core = list(iterate_core_tools(executor))
    found_tools = []
    for name in list_found_tools(records):
        if name not in core and is_usable(executor, name):
            found_tools.append(executor.tools[name])
    return Offer(core, (*skill_tools, search, *found_tools[-MOST_FOUND:]))


def is_search(tool: ToolSpec | None) -> bool:
    if tool is None or tool.kind != SEARCH.kind:
        return False
    return tool.name == SEARCH.name


def iterate_core_tools(executor: Any) -> Iterator[str]:
    room = CORE
    for name, tool in executor.tools.items():
        is_builtin = tool.kind == SEARCH.kind
        if not is_builtin and room == 0:
            continue
        if is_granted(tool) and is_usable(executor, name):
            if not is_builtin:
                room -= 1
            yield name


def is_granted(tool: ToolSpec) -> bool:
    """Whether the tool comes from a grant: not one of the runner's own, of the caller or of a skill."""
    if tool.kind in (caller_tools.KIND, skills.KIND):
        return False
    return bool(tool.id)


def is_usable(executor: Any, name: str) -> bool:
    tool = executor.tools.get(name)
    if tool is None:
        return False
    return executor.judge(tool, name).mode != policy.DENY


def list_found_tools(records: Sequence[ToolCallRecord]) -> list[str]:
    """The tools that this run's searches found, in the order in which they were found."""
    names: dict[str, None] = {}  # a dictionary keeps its order, and each name once
    for record in records:
        is_search_call = record.name == SEARCH.name and record.kind == "builtin"
        if is_search_call and record.outcome == "ok":
            names.update((tool["name"], None) for tool in record.result["tools"])
    return list(names)


def search_granted_tools(executor: Any, arguments: dict[str, Any]) -> ToolResult:
    """The granted tools that fit the query, best first."""
    by_key, entries = {}, []
    for name, tool in executor.tools.items():
        if is_granted(tool) and is_usable(executor, name):
            by_key[tool_search.build_tool_key(tool)] = tool
            entries.append(tool_search.build_entry(tool))
    limit = arguments.get("limit", RESULTS)
    ranking = tool_search.search_tools(executor.run.principal, entries, arguments["query"], limit)
    shown = []
    for match in ranking.matches:
        tool = by_key[match.key]
        shown.append({"name": tool.name, "description": tool.description[:SHORT]})
    hint = "You can call these tools now." if shown else "No tool fits. Try other words."
    return ToolResult(ok=True, value={"tools": shown, "hint": hint})
