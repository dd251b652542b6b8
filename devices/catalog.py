"""The built-in device tools as catalogue rows, with schemas derived from the client's own code."""

from agents.models import Tool
from agents.models.agent import tool_changed
from devices.client.tools import TOOLS
from devices.client.tools import Tool as BuiltIn

# Files may contain text from anyone.
UNTRUSTED = {"list_directory", "read_file_content", "search_files"}


def ensure_tools() -> list[Tool]:
    """Create or refresh the site's rows; returns those that changed."""
    rows = Tool.objects.filter(owner=None, team=None, name__in=TOOLS)
    row_by_name = {row.name: row for row in rows}
    changed = []
    for tool in TOOLS.values():
        row = ensure_device_tool(tool, row_by_name.get(tool.name))
        if row:
            changed.append(row)
    return changed


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
