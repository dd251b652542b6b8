"""Tools whose result somebody sends: the caller's own tools, and a question to the person."""

from typing import Any

from agents.schema import check_schema
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec

ANSWER_S = 24 * 3600.0  # how long a question to the person stays open
LONGEST_QUESTION = 10_000


class CallerToolset:
    """Implements Toolset for tools that the caller sent with the message and executes."""

    is_durable = True  # asking again finds the open request

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        if context.ask is None:
            raise ToolFailed("The caller cannot be asked from here.", code="cannot_ask")
        return context.ask(kind="tool", arguments=call.arguments, timeout_s=tool.deadline_s)


def ask_client(call: ToolCall, context: ToolContext) -> ToolResult:
    """The built-in tools that the person's own program executes; the result is that program's."""
    if context.ask is None:
        raise ToolFailed("The caller cannot be asked from here.", code="cannot_ask")
    return context.ask(kind="tool", arguments=call.arguments, timeout_s=ANSWER_S)


def ask_user(call: ToolCall, context: ToolContext) -> ToolResult:
    """The built-in tool `ask_user`: the person's answer, text or, with `options`, one of them; with
    `fields` an object.
    """
    if context.ask is None:
        raise ToolFailed("The person cannot be asked from here.", code="cannot_ask")
    question, options = call.arguments.get("question"), call.arguments.get("options")
    if not isinstance(question, str) or not question.strip() or len(question) > LONGEST_QUESTION:
        raise RetryTool(f"Give the question, with at most {LONGEST_QUESTION} characters.")
    fields = call.arguments.get("fields")
    answer = {"type": "string", "minLength": 1} | ({"enum": options} if options else {})
    schema = build_form_schema(fields) if fields else answer
    key = str(call.arguments.get("name", ""))
    return context.ask(kind="form", key=key, prompt=question, schema=schema, is_trusted=True, timeout_s=ANSWER_S)


def build_form_schema(fields: dict[str, Any]) -> dict[str, Any]:
    """The schema of a form. Raises RetryTool."""
    needed = [name for name, rule in fields.items() if isinstance(rule, dict) and "default" not in rule]
    form = {"type": "object", "properties": fields, **({"required": needed} if needed else {})}
    if problems := check_schema(form):
        raise RetryTool(f"The fields cannot be used: {problems[0]['path']}: {problems[0]['message']}")
    return form
