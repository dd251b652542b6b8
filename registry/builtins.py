"""Built-in tools. Their rows are created with the starters and granted like any other tool."""

from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec
from functions.interpreter import run_python

from .minion import build_minion_result
from .questions import ask_client, ask_user


class BuiltinToolset:
    """Implements Toolset. `complete` is never executed here: the runner ends the step itself."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        action = ACTIONS.get(str(tool.source.get("builtin")))
        if action is None:
            raise ToolFailed(f"There is no built-in tool “{tool.source.get('builtin')}”.", code="unknown_builtin")
        return action(call, context)


def delegate(call: ToolCall, context: ToolContext) -> ToolResult:
    capability, task = call.arguments.get("capability"), call.arguments.get("task")
    if not isinstance(capability, str) or not isinstance(task, str) or not capability.strip() or not task.strip():
        raise RetryTool("Give the capability that is needed, and the task.")
    if context.delegate is None:
        raise ToolFailed("An agent cannot be started from here.", code="cannot_spawn")
    return build_minion_result(context.delegate(capability, task, call.arguments.get("input")))


def save_file(call: ToolCall, context: ToolContext) -> ToolResult:
    name, text = call.arguments.get("name"), call.arguments.get("text")
    if not isinstance(name, str) or not isinstance(text, str) or not name.strip():
        raise RetryTool("Give the file's name and its text.")
    if context.save_file is None:
        raise ToolFailed("Files can only be saved in a run.", code="cannot_save")
    return ToolResult(ok=True, value=context.save_file(name, text.encode(), str(call.arguments.get("media_type", ""))))


ACTIONS = {
    "ask_user": ask_user, "ask_client_model": ask_client, "list_client_folders": ask_client, "delegate": delegate,
    "save_file": save_file, "run_python": run_python,
}  # fmt: skip
