"""The tools of the memory as rows of the catalogue; `init_db` creates them."""

from typing import Any

from agents.models import Tool
from agents.models.agent import tool_changed

TEXT = {"type": "string", "minLength": 1, "maxLength": 2000}
ID = {"type": "string", "format": "uuid"}
TOOLS: dict[str, dict[str, Any]] = {
    "remember": {
        "description": "Remember something about the person or their work for later conversations: one fact, one "
        "preference or one event, in a sentence that is understood on its own. Never store passwords or keys. With "
        "`replaces` it corrects an earlier memory.",
        "effect": Tool.Effect.IDEMPOTENT,
        "input_schema": {
            "type": "object",
            "properties": {
                "text": {**TEXT, "description": "What to remember."},
                "kind": {"type": "string", "enum": ["fact", "preference", "event"], "default": "fact"},
                "subject": {"type": "string", "maxLength": 200, "description": "The person or thing that it is about."},
                "scope": {
                    "type": "string",
                    "enum": ["person", "person_agent"],
                    "default": "person",
                    "description": "person: every agent of the person may know it. person_agent: only you.",
                },
                "valid_until": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When it ends, with a time zone; leave it out for what stays true.",
                },  # fmt: skip
                "replaces": {**ID, "description": "The id of the memory that this corrects."},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
    },
    "forget": {
        "description": "End a memory that is no longer true or no longer wanted. The person can bring it back.",
        "effect": Tool.Effect.IDEMPOTENT,
        "input_schema": {
            "type": "object",
            "properties": {"id": {**ID, "description": "The id that `recall` gave."}},
            "required": ["id"],
            "additionalProperties": False,
        },
    },
    "recall": {
        "description": "Search what is remembered about the person and their work.",
        "effect": Tool.Effect.READ,
        "input_schema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 500},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}


def ensure_tools() -> list[Tool]:
    """Create or refresh the site's rows; returns those that changed."""
    present = Tool.objects.filter(owner=None, team=None, name__in=TOOLS)
    tools = {tool.name: tool for tool in present}
    changed = []
    for name, shape in TOOLS.items():
        tool = save_memory_tool(name, shape, tools.get(name))
        if tool is not None:
            changed.append(tool)
    return changed


def save_memory_tool(name: str, shape: dict[str, Any], row: Tool | None) -> Tool | None:
    """The row if it changed."""
    row = row or Tool(name=name)
    before = row.definition_hash
    row.kind = Tool.Kind.KNOWLEDGE
    row.source = {"memory": name}
    row.description = shape["description"]
    row.effect = shape["effect"]
    row.input_schema = shape["input_schema"]
    if row.freeze_hash() == before:
        return None
    row.save()
    tool_changed(row)
    return row
