"""Suggestions of agents on this device: shown whole, corrected, approved or rejected by the person."""

import json
from collections.abc import Iterable
from typing import Any

from . import schema
from .exceptions import Fatal, ToolRefused
from .records import CHANGE, SET_BY_STORE, Record, is_found
from .store import Store
from .text import printable
from .tools import TOOLS

JSON = Any
HIDDEN = {*SET_BY_STORE, CHANGE, "untrusted", "isRejected", "reason"}
NOTE = "written after an agent read text from other people: check names, amounts and links"


def list_suggestion_lines(store: Store, search: str = "") -> list[str]:
    """Every suggestion with its whole content, as lines for the terminal."""
    records = [record for record in store.suggestions() if is_found(record, search, None)]
    return [line for record in records for line in (*render_suggestion(record), "")]


def render_suggestion(record: Record) -> list[str]:
    """One suggestion, or one suggested change with what is there now."""
    change = record.get(CHANGE)
    head = f"{record['id']}  {record['kind']}{'  change of an approved record' if change else ''}"
    marked = [f"  ! {NOTE}"] if record.get("untrusted") or (change or {}).get("untrusted") else []
    fields = get_visible_fields(record)
    lines = [line for name, value in fields.items() for line in entry(name, value)]
    lines += [line for name, value in get_visible_fields(change or {}).items() for line in entry(f"→ {name}", value)]
    return [head, *marked, *lines]


def get_visible_fields(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in HIDDEN and value not in ("", [], None)}


def entry(name: str, value: JSON) -> list[str]:
    """A field; the lines of a long text are indented, so that none looks like a line of its own."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    first, *rest = [printable(line) for line in text.splitlines()] or [""]
    return [f"  {printable(name)}: {first}", *(f"    {line}" for line in rest)]


def edit_suggestion(store: Store, id: str, assignments: Iterable[str]) -> Record:
    """Change fields of a suggestion (NAME=VALUE) by the rules of the tools. Raises Fatal."""
    record = next((one for one in store.suggestions() if one["id"] == id), None)
    tool = TOOLS.get(f"update_{record['kind']}") if record else None
    if record is None or tool is None:
        raise Fatal(f"there is no suggestion {printable(id)} that can be edited")
    values = {
        name: parse_assignment(tool.input_schema, name, text)
        for name, _, text in (one.partition("=") for one in assignments)
    }
    arguments = {**values, f"{record['kind']}_id": id}
    if problems := schema.problems(tool.input_schema, arguments):
        raise Fatal("; ".join(problems))
    try:
        tool.function(store, **arguments)
    except ToolRefused as refusal:
        raise Fatal(str(refusal))
    return store.get(record["kind"], id)


def parse_assignment(shape: dict[str, JSON], name: str, text: str) -> JSON:
    """Lists are written as JSON or as words between commas."""
    if "array" not in shape["properties"].get(name, {}).get("type", ""):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return [word.strip() for word in text.split(",") if word.strip()]


def decide_suggestions(store: Store, ids: list[str], *, approve: bool, reason: str = "") -> tuple[int, list[str]]:
    """The number of decided suggestions, and the ids that do not exist. “all” means every open
    suggestion.
    """
    record_ids = [record["id"] for record in store.suggestions()] if ids == ["all"] else ids
    missing = [id for id in record_ids if not store.decide(id, is_approved=approve, reason=reason)]
    return len(record_ids) - len(missing), missing
