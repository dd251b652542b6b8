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
    lines = []
    for record in store.suggestions():
        if is_found(record, search, None):
            lines += [*render_suggestion(record), ""]
    return lines


def render_suggestion(record: Record) -> list[str]:
    """One suggestion, or one suggested change with what is there now."""
    change = record.get(CHANGE) or {}
    head = f"{record['id']}  {record['kind']}"
    if change:
        head += "  change of an approved record"
    lines = [head]
    if record.get("untrusted") or change.get("untrusted"):
        lines.append(f"  ! {NOTE}")
    for name, value in get_visible_fields(record).items():
        lines += entry(name, value)
    for name, value in get_visible_fields(change).items():
        lines += entry(f"→ {name}", value)
    return lines


def get_visible_fields(record: Record) -> Record:
    fields = {}
    for name, value in record.items():
        if name not in HIDDEN and value not in ("", [], None):
            fields[name] = value
    return fields


def entry(name: str, value: JSON) -> list[str]:
    """A field; the lines of a long text are indented, so that none looks like a line of its own."""
    text = str(value)
    if isinstance(value, list):
        text = ", ".join(map(str, value))
    first, *rest = text.splitlines() or [""]
    lines = [f"  {printable(name)}: {printable(first)}"]
    for line in rest:
        lines.append(f"    {printable(line)}")
    return lines


def edit_suggestion(store: Store, id: str, assignments: Iterable[str]) -> Record:
    """Change fields of a suggestion (NAME=VALUE) by the rules of the tools. Raises Fatal."""
    record = next((one for one in store.suggestions() if one["id"] == id), None)
    tool = None
    if record is not None:
        tool = TOOLS.get(f"update_{record['kind']}")
    if record is None or tool is None:
        raise Fatal(f"there is no suggestion {printable(id)} that can be edited")
    arguments = {}
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        arguments[name] = parse_assignment(tool.input_schema, name, text)
    arguments[f"{record['kind']}_id"] = id
    problems = schema.problems(tool.input_schema, arguments)
    if problems:
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
    if ids == ["all"]:
        ids = [record["id"] for record in store.suggestions()]
    missing = []
    for id in ids:
        if not store.decide(id, is_approved=approve, reason=reason):
            missing.append(id)
    return len(ids) - len(missing), missing
