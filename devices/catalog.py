"""The built-in device tools as catalogue rows, with schemas derived from the client's own code."""

from agents.models import Tool
from agents.models.agent import tool_changed
from devices.client.tools import TOOLS
from devices.client.tools import Tool as BuiltIn

UNTRUSTED = {"list_directory", "read_file_content", "search_files"}  # files may contain text from anyone


def ensure_tools() -> list[Tool]:
    """Create or refresh the site's rows; returns those that changed."""
    rows = {tool.name: tool for tool in Tool.objects.filter(owner=None, team=None, name__in=TOOLS)}
    return [row for tool in TOOLS.values() if (row := ensure_device_tool(tool, rows.get(tool.name)))]


def ensure_device_tool(tool: BuiltIn, row: Tool | None) -> Tool | None:
    row = row or Tool(name=tool.name, untrusted=tool.name in UNTRUSTED)
    before = row.definition_hash
    row.kind = Tool.Kind.DEVICE
    row.description = tool.description
    row.input_schema = tool.input_schema
    row.effect = tool.effect
    row.source = {"device": tool.name}
    if row.freeze_hash() == before:
        return None
    row.save()
    tool_changed(row)
    return row
