"""The two tools of a collection as rows of the catalogue: search and fetch, as MCP hosts expect them."""

from collections.abc import Callable
from typing import Any

from agents.http.viewsets import refusals
from agents.models import Tool
from agents.models.agent import tool_changed
from agents.sharing import remove_unshared_uses
from knowledge.models import Collection

from . import storage

VERBS: dict[str, tuple[str, dict[str, Any]]] = {
    "search": (
        "Search the documents of the collection “{name}”{about}. Returns excerpts with their place; cite the `title`. "
        "With `fetch-{name}` you get the whole text around an excerpt.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What to look for."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 8},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    ),
    "fetch": (
        "Read a document of the collection “{name}”{about}: the text at the place that `search-{name}` found.",
        {
            "type": "object",
            "properties": {"id": {"type": "string", "maxLength": 700, "description": "An id of the search."}},
            "required": ["id"],
            "additionalProperties": False,
        },
    ),
}


def save_collection_tools(row: Collection) -> None:
    """Create or refresh the collection's tools; they are owned and shared like it."""
    tools = {tool.source["verb"]: tool for tool in Tool.objects.filter(**row.listed_as())}
    about = f" ({row.description})" if row.description else ""
    for verb, (description, schema) in VERBS.items():
        tool = tools.get(verb) or Tool()
        tool.name = f"{verb}-{row.name}"
        tool.kind = Tool.Kind.KNOWLEDGE
        tool.effect = Tool.Effect.READ
        tool.source = {"collection": row.pk, "verb": verb}
        tool.description = description.format(name=row.name, about=about)
        tool.input_schema = schema
        tool.owner_id = row.owner_id
        tool.team_id = row.team_id
        before = tool.definition_hash
        has_changed = tool.freeze_hash() != before
        # A tool that is saved makes every live agent with a grant of it build itself anew.
        if has_changed or tool.pk is None:
            tool.save()
            tool_changed(tool)


def delete_collection(row: Collection, user: Any, *, audit: Callable[..., None]) -> None:
    """Delete a collection with its documents and tools. Raises Conflict (in_use) while one of them is granted."""
    with refusals("collection", user, is_deletion=True):
        audit("deleted", row)
        remove_unshared_uses(row)
        Tool.objects.filter(**row.listed_as()).delete()
        storage.erase_collection(row)
        row.delete()
