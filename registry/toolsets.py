"""Kind of tool → the code that executes it. A literal table: an unknown kind is refused."""

from agents.tools import ToolCall, ToolContext, ToolFailed, ToolResult, Toolset, ToolSpec
from connectors.tools import A2aToolset, ConnectorToolset, HttpToolset, McpToolset
from devices.tools import DeviceToolset
from functions.tools import FunctionToolset
from knowledge.tools import KnowledgeToolset, SkillToolset

from .builtins import BuiltinToolset
from .minion import ChainToolset, MinionToolset
from .questions import CallerToolset
from .routing.embeddings import find_similarities

TOOLSETS: dict[str, Toolset] = {
    "agent": MinionToolset(),
    "chain": ChainToolset(),
    "builtin": BuiltinToolset(),
    "caller": CallerToolset(),
    "device": DeviceToolset(),
    "function": FunctionToolset(),
    "connector": ConnectorToolset(),
    "knowledge": KnowledgeToolset(find_similarities),
    "skill": SkillToolset(),
    "mcp": McpToolset(),
    "http": HttpToolset(),
    "a2a": A2aToolset(),
}


def is_durable(kind: str) -> bool:
    """Whether repeating a call with its old id finds the old call, so that a crash leaves no
    unknown outcome.
    """
    toolset = TOOLSETS.get(kind)
    return bool(getattr(toolset, "is_durable", False))


def call_tool(tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
    """Execute one call. Raises the errors of agents.tools. The runner has already decided that the
    call may run.
    """
    toolset = TOOLSETS.get(tool.kind)
    if toolset is None:
        raise ToolFailed(f"There is no toolset for tools of kind “{tool.kind}”.", code="unknown_tool_kind")
    return toolset.call(tool, call, context)
