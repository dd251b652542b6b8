"""The client's task, note, project and timeline tools, run on the rows of a person without a device."""

from django.db import transaction

from agents.tools import ToolCall, ToolContext, ToolFailed, ToolResult
from devices.client import schema
from devices.client.exceptions import ToolRefused
from devices.client.tools import Tool

from .storage import Author, PersonsRecords


def run_tool(tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult:
    """One call of a records tool for the user of the context. Raises ToolFailed."""
    problems = schema.problems(tool.input_schema, call.arguments)
    if problems:
        raise ToolFailed("; ".join(problems), code="invalid_arguments")
    try:
        with transaction.atomic():
            author = build_author(call, context)
            records = PersonsRecords(context.user_id, author)
            value = tool.function(records, **call.arguments)
    except ToolRefused as refusal:
        raise ToolFailed(str(refusal), code=refusal.code)
    return ToolResult(ok=True, value=value)


def build_author(call: ToolCall, context: ToolContext) -> Author:
    name = context.agent or context.chain or "an agent"
    return Author(name, run_id=context.run_id, call_id=call.id, is_untrusted=context.is_untrusted)
