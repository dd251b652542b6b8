"""Many rows by one statement that the driver binds row by row: no limit to their number (agents.prepared has one)."""

from collections.abc import Sequence
from typing import Any

from django.db import connection, models


def insert_each(rows: Sequence[models.Model], *, varying: Sequence[str] | None = None) -> None:
    """Insert rows of one model. Where only the fields `varying` differ, the rest is taken from the first of them."""
    if not rows:
        return
    meta, quote = rows[0]._meta, connection.ops.quote_name
    fields = meta.concrete_fields
    common = [new(field, rows[0]) for field in fields]
    places = [(place, field) for place, field in enumerate(fields) if varying is None or field.name in varying]
    names = ", ".join(quote(field.column) for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    sql = f"INSERT INTO {quote(meta.db_table)} ({names}) VALUES ({marks})"  # noqa: S608 (names come from the model)
    values = [common]
    for row in rows[1:]:
        mine = common.copy()
        for place, field in places:
            mine[place] = new(field, row)
        values.append(mine)
    with connection.cursor() as cursor:
        cursor.executemany(sql, values)
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


def new(field: Any, row: models.Model) -> Any:
    return field.get_db_prep_save(field.pre_save(row, add=True), connection)


def update_each(rows: Sequence[models.Model], fields: Sequence[str], *, where: dict[str, Any] | None = None) -> int:
    """Write these fields of rows that are there, each only while `where` (a value a field) holds. How many it did."""
    if not rows:
        return 0
    meta: Any = rows[0]._meta
    quote = connection.ops.quote_name
    changed: list[Any] = [meta.get_field(name) for name in fields]
    tested = {meta.get_field(name): value for name, value in (where or {}).items()}
    sets = ", ".join(f"{quote(field.column)} = %s" for field in changed)
    tests = " AND ".join(f"{quote(field.column)} = %s" for field in [meta.pk, *tested])
    sql = f"UPDATE {quote(meta.db_table)} SET {sets} WHERE {tests}"  # noqa: S608 (names come from the model)
    conditions = [field.get_db_prep_save(value, connection) for field, value in tested.items()]
    values = [[*(stored(field, row) for field in changed), stored(meta.pk, row), *conditions] for row in rows]
    with connection.cursor() as cursor:
        if len(values) == 1:
            cursor.execute(sql, values[0])
        else:
            cursor.executemany(sql, values)
        return cursor.rowcount


def stored(field: Any, row: models.Model) -> Any:
    return field.get_db_prep_save(getattr(row, field.attname), connection)
