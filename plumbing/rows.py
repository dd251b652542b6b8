"""Rows written without compiling a query: the INSERT or UPDATE of a model's columns is put together once and kept.

Defaults, `auto_now` and the fields' own conversions hold as with `save()`; nothing cascades and no signal is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import models

from .prepared import cursor_of_kept, database

PARAMETERS = 30_000  # in one statement: SQLite takes 32,766, PostgreSQL 65,535


@dataclass(frozen=True, slots=True)
class Insert:
    """An INSERT in parts: up to VALUES, one row's places, what comes back, and the fields in order."""

    head: str
    places: str
    tail: str
    fields: tuple[models.Field, ...]


def insert(*rows: models.Model) -> None:
    """Insert new rows of one model as `bulk_create` would: one statement, or a few where they are very many. Keys made
    by the database are set. Raises IntegrityError."""
    if not rows:
        return
    db = database()
    made = insert_of(type(rows[0]), db.vendor)
    at_once = max(1, PARAMETERS // len(made.fields))
    for start in range(0, len(rows), at_once):
        insert_few(made, rows[start : start + at_once], db)


def insert_few(made: Insert, rows: Sequence[models.Model], db: Any) -> None:
    values = [value for row in rows for value in values_of(made.fields, row, db, add=True)]
    with cursor_of_kept(db) as cursor:
        cursor.execute(f"{made.head} {', '.join([made.places] * len(rows))}{made.tail}", values)
        keys = cursor.fetchall() if made.tail else ()
    for row, (key,) in zip(rows, keys, strict=False):
        row.pk = key
    mark_stored(rows, db)


def insert_each(rows: Sequence[models.Model], *, varying: Sequence[str] | None = None) -> None:
    """Insert any number of rows that bring their own keys, bound row by row. Where only the fields `varying` differ,
    the rest is taken from the first of them."""
    if not rows:
        return
    db = database()
    made = insert_of(type(rows[0]), db.vendor)
    places = [(place, field) for place, field in enumerate(made.fields) if varying is None or field.name in varying]
    common = values_of(made.fields, rows[0], db, add=True)
    values = [common]
    for row in rows[1:]:
        mine = common.copy()
        for place, field in places:
            [mine[place]] = values_of((field,), row, db, add=True)
        values.append(mine)
    with cursor_of_kept(db) as cursor:
        cursor.executemany(f"{made.head} {made.places}", values)
    mark_stored(rows, db)


def write(row: models.Model, names: tuple[str, ...]) -> None:
    """What `row.save(update_fields=names)` does to its row, which must exist."""
    update_each([row], names)


def update_each(rows: Sequence[models.Model], names: Sequence[str], *, where: dict[str, Any] | None = None) -> int:
    """Write these fields of rows that are there, each only while `where` (a value a field) holds. How many it did."""
    if not rows:
        return 0
    db, where = database(), where or {}
    sql, changed, tested = update_of(type(rows[0]), tuple(names), tuple(where), db.vendor)
    conditions = [field.get_db_prep_save(value, db) for field, value in zip(tested, where.values(), strict=True)]
    values = [[*values_of(changed, row, db, add=False), *conditions] for row in rows]
    with cursor_of_kept(db) as cursor:
        if len(values) == 1:
            cursor.execute(sql, values[0])
        else:
            cursor.executemany(sql, values)
        return cursor.rowcount


# -- statements, put together once for each kind of database -----------------------------------------------------------


@cache
def insert_of(model: type[models.Model], vendor: str) -> Insert:
    quote, meta = database().ops.quote_name, model._meta
    is_made_there = isinstance(meta.pk, models.AutoField)
    fields = tuple(field for field in meta.concrete_fields if not (is_made_there and field.primary_key))
    return Insert(
        head=f"INSERT INTO {quote(meta.db_table)} ({', '.join(quote(field.column) for field in fields)}) VALUES",
        places=f"({', '.join(['%s'] * len(fields))})",
        tail=f" RETURNING {quote(meta.pk.column)}" if is_made_there else "",
        fields=fields,
    )


@cache
def update_of(
    model: type[models.Model], names: tuple[str, ...], tested: tuple[str, ...], vendor: str
) -> tuple[str, tuple[Any, ...], tuple[Any, ...]]:
    """The statement, the fields it sets followed by the key, and the fields it tests."""
    quote, meta = database().ops.quote_name, model._meta
    changed: tuple[Any, ...] = tuple(meta.get_field(name) for name in names)
    conditions: tuple[Any, ...] = tuple(meta.get_field(name) for name in tested)
    sets = ", ".join(f"{quote(field.column)} = %s" for field in changed)
    tests = " AND ".join(f"{quote(field.column)} = %s" for field in (meta.pk, *conditions))
    sql = f"UPDATE {quote(meta.db_table)} SET {sets} WHERE {tests}"  # noqa: S608 (names come from the model)
    return sql, (*changed, meta.pk), conditions


def values_of(fields: Sequence[models.Field], row: models.Model, db: Any, *, add: bool) -> list[Any]:
    return [field.get_db_prep_save(field.pre_save(row, add), db) for field in fields]


def mark_stored(rows: Sequence[models.Model], db: Any) -> None:
    for row in rows:
        row._state.adding, row._state.db = False, db.alias
