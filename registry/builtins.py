"""Built-in tools. Their rows are created with the starters and granted like any other tool."""

from typing import Any, TypeGuard

from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec
from functions.interpreter import run_python

from .minion import build_minion_result
from .questions import ask_client, ask_user


class BuiltinToolset:
    """Implements Toolset. `complete` is never executed here: the runner ends the step itself."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        name = tool.source.get("builtin")
        action = ACTIONS.get(str(name))
        if action is None:
            raise ToolFailed(f"There is no built-in tool “{name}”.", code="unknown_builtin")
        return action(call, context)


def delegate(call: ToolCall, context: ToolContext) -> ToolResult:
    """The built-in tool `delegate`: an agent with the capability does the task in a child run."""
    arguments = call.arguments
    capability = arguments.get("capability")
    task = arguments.get("task")
    if not has_text(capability) or not has_text(task):
        raise RetryTool("Give the capability that is needed, and the task.")
    if context.delegate is None:
        raise ToolFailed("An agent cannot be started from here.", code="cannot_spawn")
    reply = context.delegate(capability, task, arguments.get("input"))
    return build_minion_result(reply)


def save_file(call: ToolCall, context: ToolContext) -> ToolResult:
    """The built-in tool `save_file`: a text becomes a file of the run."""
    arguments = call.arguments
    name = arguments.get("name")
    text = arguments.get("text")
    # The file may be empty, its name may not.
    if not has_text(name) or not isinstance(text, str):
        raise RetryTool("Give the file's name and its text.")
    if context.save_file is None:
        raise ToolFailed("Files can only be saved in a run.", code="cannot_save")
    media_type = str(arguments.get("media_type", ""))
    saved = context.save_file(name, text.encode(), media_type)
    return ToolResult(ok=True, value=saved)


def has_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


ACTIONS = {
    "ask_user": ask_user, "ask_client_model": ask_client, "list_client_folders": ask_client, "delegate": delegate,
    "save_file": save_file, "run_python": run_python,
}  # fmt: skip
