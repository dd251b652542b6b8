"""Calls of tools of an MCP server."""

from agents.models import Tool
from connectors.toolsets import sessions
from tests.connectors.linked import call_tool, spec_of

API = "/api/v1/connections"


def call(user, name="fake_echo", /, *, seconds=30.0, **arguments):
    tool = Tool.objects.get(name=name)
    return call_tool(spec_of(tool, deadline_s=seconds), user, arguments)


def forget_list():
    for kept in sessions._kept.values():
        kept.listed_at = 0.0
