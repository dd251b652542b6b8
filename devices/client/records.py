"""The storage interface of the task, note, project and timeline tools.

A device keeps records in a local SQLite file (store.py); the server keeps them for users without a
device. The same tools run on both. A record created by an agent is a suggestion until the user
approves it. A change that an agent makes to an approved record after it read untrusted text is a
suggestion too, in `suggestedChange`.
"""

from collections.abc import Callable, Collection
from datetime import date
from typing import Any, Protocol, TypeVar

from .exceptions import ToolRefused
from .folding import fold_text

JSON = Any
T = TypeVar("T")
# Has id, kind, isAiSuggested, isApproved, created_at, updated_at, and the fields of its kind.
Record = dict[str, JSON]

MAX_TEXT = 200_000
MAX_TITLE = 500
MAX_NAMES, MAX_NAME = 20, 200
# The field of a record with what an agent wants to change in it.
CHANGE = "suggestedChange"
SET_BY_STORE = ("id", "kind", "isAiSuggested", "isApproved", "created_at", "updated_at")
KINDS = ("project", "task", "comment", "note", "timeline")


class Records(Protocol):
    @property
    def author(self) -> str:
        """Who writes: the name of an agent or of a person."""
        ...

    def add(self, kind: str, values: dict[str, JSON]) -> Record: ...

    def change(self, kind: str, id: str, values: dict[str, JSON]) -> Record:
        """Raises ToolRefused (not_found)."""
        ...

    def get(self, kind: str, id: str) -> Record:
        """Raises ToolRefused (not_found)."""
        ...

    def all(
        self, kind: str, *, limit: int, search: str | None = None, assignee: str | None = None, **equal: JSON
    ) -> list[Record]:
        """Newest change first, without rejected ones; `search` is words that the texts contain, and
        `equal` filters by field.
        """
        ...


def build_untrusted_mark(is_untrusted: bool) -> dict[str, JSON]:
    """A record created or changed after untrusted text was read keeps the mark permanently."""
    if not is_untrusted:
        return {}
    return {"untrusted": 1}


def refuse_missing(kind: str, id: str) -> ToolRefused:
    return ToolRefused("not_found", f"there is no {kind} with the id “{id[:80]}”")


def refuse_rejected(record: Record) -> ToolRefused:
    why = ""
    if record.get("reason"):
        why = f": {record['reason']}"
    return ToolRefused("rejected", f"the person rejected this {record['kind']}{why}; leave it as it is")


def is_found(record: Record, search: str | None, assignee: str | None) -> bool:
    """Whether a record has these words in its texts, and this person among its assignees."""
    if assignee:
        names = map(fold_text, record.get("assignees") or [])
        if fold_text(assignee.strip()) not in names:
            return False
    if not search:
        return True
    # Its id, its times and the like are no texts of the record.
    texts = collect_record_texts(drop_fields(record, SET_BY_STORE))
    folded = fold_text("\n".join(texts))
    return all(word in folded for word in fold_text(search).split())


def collect_record_texts(value: JSON) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    texts: list[str] = []
    if isinstance(value, list):
        for item in value:
            texts += collect_record_texts(item)
    return texts


def check_title(text: str) -> str:
    title = text.strip()
    if not title or len(title) > MAX_TITLE:
        raise ToolRefused("invalid_arguments", f"a title must have 1 to {MAX_TITLE} characters")
    return title


def check_text(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise ToolRefused("too_large", f"a text can have at most {MAX_TEXT} characters")
    return text


def check_day(text: str) -> str:
    """YYYY-MM-DD, or empty for none."""
    if not text:
        return ""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ToolRefused("invalid_arguments", f"“{text[:40]}” is not a date such as 2026-01-31")


def check_given(check: Callable[[T], T], value: T | None) -> T | None:
    """The checked value of an argument; None if it was not given."""
    if value is None:
        return None
    return check(value)


def keep_given_values(**values: JSON) -> dict[str, JSON]:
    """The arguments that were given: None means “no change”."""
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        raise ToolRefused("invalid_arguments", "no field to change was given")
    return changes


def check_people(people: list[str]) -> list[str]:
    """Names or addresses of people, each once."""
    # The keys of a dictionary are each name once, in order.
    unique = dict.fromkeys(" ".join(name.split()) for name in people)
    names = list(unique)
    if len(names) > MAX_NAMES or not all(0 < len(name) <= MAX_NAME for name in names):
        raise ToolRefused("invalid_arguments", f"give at most {MAX_NAMES} names of 1 to {MAX_NAME} characters")
    return names


def check_source(text: str) -> str:
    if len(text) > MAX_TITLE:
        raise ToolRefused("invalid_arguments", f"a source can have at most {MAX_TITLE} characters")
    return text.strip()


def equals(**values: JSON) -> dict[str, JSON]:
    """The filters that were given."""
    return {name: value for name, value in values.items() if value}


def clamp_limit(limit: int) -> int:
    return max(1, min(limit, 500))


def check_project(records: Records, project_id: str) -> str:
    if project_id:
        records.get("project", project_id)
    return project_id


def drop_fields(record: Record, names: Collection[str]) -> Record:
    return {name: value for name, value in record.items() if name not in names}
