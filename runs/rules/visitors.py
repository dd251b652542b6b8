"""Which tools a run may use that serves a visitor, a stranger who writes to an agent from a public page."""

from collections.abc import Collection

# They act on the owner's machines and accounts.
CLOSED_KINDS = frozenset({"device", "connector", "caller"})
# They ask the owner, or choose among all agents of the owner.
CLOSED_BUILTINS = frozenset({"ask_user", "delegate"})


def may_open(kind: str, source: dict[str, object]) -> bool:
    """Whether an owner may open this tool to visitors at all."""
    if kind in CLOSED_KINDS or source.get("builtin") in CLOSED_BUILTINS:
        return False
    # What visitors say must not get into the owner's memory, nor out of it.
    return "memory" not in source


def is_open(name: str, kind: str, source: dict[str, object], opened: Collection[str]) -> bool:
    """`opened`: the names that the owner opened. They hold for the whole tree of runs."""
    return name in opened and may_open(kind, source)
