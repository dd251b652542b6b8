"""Built-in tools. Their rows are created with the starters and granted like any other tool."""

from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec

from .minion import result_of
from .questions import ask_user


class BuiltinToolset:
    """Implements Toolset. `complete` is never executed here: the runner ends the step itself."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        if tool.source.get("builtin") == "ask_user":
            return ask_user(call, context)
        if tool.source.get("builtin") != "delegate":
            raise ToolFailed(f"There is no built-in tool “{tool.source.get('builtin')}”.", code="unknown_builtin")
        capability, task = call.arguments.get("capability"), call.arguments.get("task")
        if not isinstance(capability, str) or not isinstance(task, str) or not capability.strip() or not task.strip():
            raise RetryTool("Give the capability that is needed, and the task.")
        if context.delegate is None:
            raise ToolFailed("An agent cannot be started from here.", code="cannot_spawn")
        return result_of(context.delegate(capability, task, call.arguments.get("input")))
