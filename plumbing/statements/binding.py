"""Connections and cursors for repeated statements, and values that the database computes."""

from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

# A condition inside another statement, and its parameters.
Question = tuple[str, list[Any]]


def database() -> Any:
    """This thread's connection itself: `django.db.connection` looks it up for each attribute
    access, sixty times for a row with fifteen fields.
    """
    return connections[DEFAULT_DB_ALIAS]


def cursor_of_kept(db: Any) -> Any:
    """A cursor for repeated statements: PostgreSQL parses and plans each once per connection."""
    if db.vendor != "postgresql":
        return db.cursor()
    # Needs psycopg, which is not used with SQLite.
    from django.db.backends.postgresql.base import ServerBindingCursor

    db.ensure_connection()
    with db.wrap_database_errors:
        cursor: Any = ServerBindingCursor(db.connection)  # type: ignore[call-arg]
        return db._prepare_cursor(cursor)


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that the database computes, with its parameters (`plumbing/computed.py`); the field of
    a row may hold one until it is stored.
    """

    sql: str
    parameters: tuple[Any, ...]

    def as_sql(self, *_: Any) -> tuple[str, tuple[Any, ...]]:
        return self.sql, self.parameters
