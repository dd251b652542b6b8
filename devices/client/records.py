"""The storage interface of the task, note, project and timeline tools.

A device keeps records in a local SQLite file (store.py); the server keeps them for users without a
device. The same tools run on both. A record created by an agent is a suggestion until the user
approves it.
"""

from collections.abc import Collection
from datetime import date
from typing import Any, Protocol

from .exceptions import ToolRefused

JSON = Any
Record = dict[str, JSON]  # id, kind, isAiSuggested, isApproved, created_at, updated_at, and the fields of its kind

MAX_TEXT = 200_000
MAX_TITLE = 500
KINDS = ("project", "task", "comment", "note", "timeline")


class Records(Protocol):
    def add(self, kind: str, values: dict[str, JSON]) -> Record: ...

    def change(self, kind: str, id: str, values: dict[str, JSON]) -> Record:
        """Raises ToolRefused (not_found)."""
        ...

    def get(self, kind: str, id: str) -> Record:
        """Raises ToolRefused (not_found)."""
        ...

    def all(self, kind: str, *, limit: int, **equal: JSON) -> list[Record]:
        """Newest change first; `equal` filters by field."""
        ...


def mark_of(is_untrusted: bool) -> dict[str, JSON]:
    """A record created or changed after untrusted text was read keeps the mark permanently."""
    return {"untrusted": 1} if is_untrusted else {}


def missing(kind: str, id: str) -> ToolRefused:
    return ToolRefused("not_found", f"there is no {kind} with the id “{id[:80]}”")


def title_of(text: str) -> str:
    title = text.strip()
    if not title or len(title) > MAX_TITLE:
        raise ToolRefused("invalid_arguments", f"a title must have 1 to {MAX_TITLE} characters")
    return title


def text_of(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise ToolRefused("too_large", f"a text can have at most {MAX_TEXT} characters")
    return text


def day_of(text: str) -> str:
    """YYYY-MM-DD, or empty for none."""
    try:
        return date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        raise ToolRefused("invalid_arguments", f"“{text[:40]}” is not a date such as 2026-01-31")


def given(**values: JSON) -> dict[str, JSON]:
    """The arguments that were given: None means “no change”."""
    found = {name: value for name, value in values.items() if value is not None}
    if not found:
        raise ToolRefused("invalid_arguments", "no field to change was given")
    return found


def within(limit: int) -> int:
    return max(1, min(limit, 500))


def check_project(records: Records, project_id: str) -> str:
    if project_id:
        records.get("project", project_id)
    return project_id


def without(record: Record, names: Collection[str]) -> Record:
    return {name: value for name, value in record.items() if name not in names}
