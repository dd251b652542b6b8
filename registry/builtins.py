"""Tools that are part of Muster. Their rows come with the starters and are granted like any other tool."""

from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec

from .minion import result_of


class BuiltinToolset:
    """Implements Toolset. `complete` never comes here: the runner ends the step itself."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        if tool.source.get("builtin") != "delegate":
            raise ToolFailed(f"There is no built-in tool “{tool.source.get('builtin')}”.", code="unknown_builtin")
        capability, task = call.arguments.get("capability"), call.arguments.get("task")
        if not isinstance(capability, str) or not isinstance(task, str) or not capability.strip() or not task.strip():
            raise RetryTool("Say which capability it takes, and the task.")
        if context.delegate is None:
            raise ToolFailed("No agent can be started from here.", code="cannot_spawn")
        return result_of(context.delegate(capability, task, call.arguments.get("input")))
