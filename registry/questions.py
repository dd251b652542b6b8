"""Tools whose result somebody sends: the caller's own tools, and a question to the person."""

from typing import Any

from agents.schema import check_schema
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec

# How long a question to the person stays open.
ANSWER_S = 24 * 3600.0
LONGEST_QUESTION = 10_000


class CallerToolset:
    """Implements Toolset for tools that the caller sent with the message and executes."""

    # Asking again finds the open request.
    is_durable = True

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
    arguments = call.arguments
    question = arguments.get("question")
    if not isinstance(question, str) or not question.strip() or len(question) > LONGEST_QUESTION:
        raise RetryTool(f"Give the question, with at most {LONGEST_QUESTION} characters.")
    fields = arguments.get("fields")
    options = arguments.get("options")
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if fields:
        schema = build_form_schema(fields)
    elif options:
        schema["enum"] = options
    key = str(arguments.get("name", ""))
    return context.ask(kind="form", key=key, prompt=question, schema=schema, is_trusted=True, timeout_s=ANSWER_S)


def build_form_schema(fields: dict[str, Any]) -> dict[str, Any]:
    """The schema of a form. Raises RetryTool."""
    form: dict[str, Any] = {"type": "object", "properties": fields}
    # A field with a default may be left out.
    required = [name for name, rule in fields.items() if isinstance(rule, dict) and "default" not in rule]
    if required:
        form["required"] = required
    problems = check_schema(form)
    if problems:
        first = problems[0]
        raise RetryTool(f"The fields cannot be used: {first['path']}: {first['message']}")
    return form
