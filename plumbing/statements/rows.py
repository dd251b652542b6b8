"""Rows that are inserted, and fields of rows that are written."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import models

from plumbing.json_values import JsonText

from .binding import Bound, cursor_of_kept, database

# Values up to which psycopg keeps a statement that it has parsed.
REMEMBERED = 50
# Values in one statement: SQLite allows 32,766, PostgreSQL 65,535.
PARAMETERS = 30_000


@dataclass(frozen=True, slots=True)
class Column:
    """A field, and what is known about it before a value comes."""

    field: Any
    # The name of the row's attribute.
    name: str
    is_set_on_save: bool  # `auto_now` and the like
    # Values of exactly this type go to the database as they are.
    plain_type: type | None

    def read(self, row: Any, db: Any, *, add: bool) -> Any:
        """The row's value, as it is written for the database."""
        value = self.field.pre_save(row, add) if self.is_set_on_save else getattr(row, self.name)
        if value is None or type(value) is self.plain_type:
            return value
        return self.field.get_db_prep_save(value, db)


def make_column(field: models.Field, vendor: str) -> Column:
    """Django asks five methods for each value; for texts, truth values, texts that are JSON
    already and, on SQLite, integers they change nothing."""
    plain_type: type | None = None
    stored = field.target_field if isinstance(field, models.ForeignKey) else field
    if type(field) in (models.CharField, models.TextField):
        plain_type = str
    elif type(field) is models.BooleanField:
        plain_type = bool
    elif type(field) is models.JSONField:
        plain_type = JsonText
    elif isinstance(stored, models.IntegerField) and vendor == "sqlite":
        plain_type = int
    is_set_on_save = type(field).pre_save is not models.Field.pre_save
    return Column(field, field.attname, is_set_on_save, plain_type)


@dataclass(frozen=True, slots=True)
class Insert:
    """The parts of an INSERT: up to VALUES, the placeholders of a row of plain values, the returned
    columns, and the columns in order.
    """

    head: str
    places: str
    tail: str
    columns: tuple[Column, ...]


def insert_rows(*rows: models.Model) -> None:
    """Insert new rows of one model as `bulk_create` does, in one statement or a few for very many
    rows. Keys made by the database are set. Raises IntegrityError.
    """
    if not rows:
        return
    db = database()
    statement = make_insert(type(rows[0]), db.vendor)
    at_once = max(1, PARAMETERS // len(statement.columns))
    for start in range(0, len(rows), at_once):
        insert_few(statement, rows[start : start + at_once], db)


def insert_few(statement: Insert, rows: Sequence[models.Model], db: Any) -> None:
    is_wide = len(statement.columns) > REMEMBERED
    placed = [placed_values(read_values(statement.columns, row, db, add=True), names_null=is_wide) for row in rows]
    with cursor_of_kept(db) as cursor:
        places = ", ".join(one for one, _ in placed)
        cursor.execute(
            f"{statement.head} {places}{statement.tail}", [value for _, values in placed for value in values]
        )
        keys = cursor.fetchall() if statement.tail else ()
    for row, (key,) in zip(rows, keys, strict=False):
        row.pk = key
    mark_stored(rows, db)


def insert_each(rows: Sequence[models.Model], *, varying: Sequence[str] | None = None) -> None:
    """Insert any number of rows with keys of their own. If only the fields `varying` differ, the
    other values are taken from the first row.
    """
    if not rows:
        return
    db = database()
    statement = make_insert(type(rows[0]), db.vendor)
    places = [
        (place, column)
        for place, column in enumerate(statement.columns)
        if varying is None or column.field.name in varying
    ]
    common = read_values(statement.columns, rows[0], db, add=True)
    values = [common]
    for row in rows[1:]:
        mine = common.copy()
        for place, column in places:
            mine[place] = column.read(row, db, add=True)
        values.append(mine)
    # The shape is the same for all.
    placed = [placed_values(one) for one in values]
    with cursor_of_kept(db) as cursor:
        cursor.executemany(f"{statement.head} {placed[0][0]}", [one for _, one in placed])
    mark_stored(rows, db)


def placed_values(values: list[Any], *, names_null: bool = False) -> tuple[str, list[Any]]:
    """The placeholders of a row, and its values; a value may be computed. `names_null`: None is part of the SQL."""
    places: list[str] = []
    flat: list[Any] = []
    for value in values:
        if isinstance(value, Bound):
            places.append(value.sql)
            flat.extend(value.parameters)
        elif value is None and names_null:
            places.append("NULL")
        else:
            places.append("%s")
            flat.append(value)
    return f"({', '.join(places)})", flat


def insert_plain(model: type[models.Model], rows: Sequence[Any]) -> None:
    """Insert dataclasses with slots named like the model's columns, in one statement: creating a model costs as much
    as writing its values.
    """
    db = database()
    statement = make_insert(model, db.vendor, tuple(type(rows[0]).__slots__))
    values = [value for row in rows for value in read_values(statement.columns, row, db, add=False)]
    with cursor_of_kept(db) as cursor:
        cursor.execute(f"{statement.head} {', '.join([statement.places] * len(rows))}", values)


def write_row(row: models.Model, names: tuple[str, ...]) -> None:
    """Like `row.save(update_fields=names)` for an existing row."""
    update_each([row], names)


def update_each(
    rows: Sequence[Any],
    names: Sequence[str],
    *,
    where: dict[str, Any] | None = None,
    model: type[models.Model] | None = None,
) -> int:
    """Write these fields of existing rows, each only while `where` (one value per field) holds.
    Returns how many.

    With `model` the rows may be any objects with these fields and the key.
    """
    if not rows:
        return 0
    db, where = database(), where or {}
    kind: Any = model or type(rows[0])
    sql, changed, tested = make_update(kind, tuple(names), tuple(where), db.vendor)
    conditions = [field.get_db_prep_save(value, db) for field, value in zip(tested, where.values(), strict=True)]
    values = [[*read_values(changed, row, db, add=False), *conditions] for row in rows]
    with cursor_of_kept(db) as cursor:
        if len(values) == 1:
            cursor.execute(sql, values[0])
        else:
            cursor.executemany(sql, values)
        return cursor.rowcount


@cache
def make_insert(model: type[models.Model], vendor: str, names: tuple[str, ...] = ()) -> Insert:
    """`names`: the columns; by default all except a key made by the database."""
    quote = database().ops.quote_name
    meta = model._meta
    fields = list(meta.concrete_fields)
    tail = ""
    if isinstance(meta.pk, models.AutoField):
        # The database makes the key and tells it.
        fields = [field for field in fields if not field.primary_key]
        tail = f" RETURNING {quote(meta.pk.column)}"
    if names:
        fields = [field for field in fields if field.attname in names]
    columns = ", ".join(quote(field.column) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    return Insert(
        head=f"INSERT INTO {quote(meta.db_table)} ({columns}) VALUES",
        places=f"({places})",
        tail=tail,
        columns=tuple(make_column(field, vendor) for field in fields),
    )


@cache
def make_update(
    model: type[models.Model], names: tuple[str, ...], tested: tuple[str, ...], vendor: str
) -> tuple[str, tuple[Any, ...], tuple[Any, ...]]:
    """The statement, the columns it sets followed by the key, and the fields it tests."""
    quote = database().ops.quote_name
    meta = model._meta
    changed: list[Any] = list(map(meta.get_field, names))
    conditions: list[Any] = list(map(meta.get_field, tested))
    sets = ", ".join(f"{quote(field.column)} = %s" for field in changed)
    tests = " AND ".join(f"{quote(field.column)} = %s" for field in [meta.pk, *conditions])
    sql = f"UPDATE {quote(meta.db_table)} SET {sets} WHERE {tests}"  # noqa: S608 (names come from the model)
    columns = tuple(make_column(field, vendor) for field in [*changed, meta.pk])
    return sql, columns, tuple(conditions)


def read_values(columns: Sequence[Column], row: Any, db: Any, *, add: bool) -> list[Any]:
    return [column.read(row, db, add=add) for column in columns]


def mark_stored(rows: Sequence[models.Model], db: Any) -> None:
    for row in rows:
        row._state.adding, row._state.db = False, db.alias
