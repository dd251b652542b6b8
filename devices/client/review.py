"""Suggestions of agents, for the user to approve or reject."""

from typing import Any

from .records import Record
from .store import Store
from .text import printable

JSON = Any


def listed(store: Store) -> list[str]:
    """One line a suggestion: id, kind, title."""
    return [f"{record['id']}  {record['kind']:8}  {title_of(record)}" for record in store.suggestions()]


def decide(store: Store, ids: list[str], *, approve: bool) -> tuple[int, list[str]]:
    """The number of decided suggestions, and the ids that do not exist. “all” means every open
    suggestion.
    """
    wanted = [record["id"] for record in store.suggestions()] if ids == ["all"] else ids
    act = store.approve if approve else store.reject
    missing = [id for id in wanted if not act(id)]
    return len(wanted) - len(missing), missing


def title_of(record: Record) -> str:
    return printable(str(record.get("title") or record.get("name") or record.get("text") or "")[:100])
