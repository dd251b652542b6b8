"""Numbers without gaps or doubles: one UPDATE … RETURNING on the parent row, which may change and check more of it."""

from typing import Any

from django.db import models

from agents.prepared import cursor_of_kept, database


def take_numbers(
    model: type[models.Model],
    pk: Any,
    column: str,
    count: int = 1,
    *,
    where: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
) -> int | None:
    """Add `count` to an integer column and return the last number taken; None where no row matched.

    `where` holds further conditions (a tuple means “one of”), `values` further columns to set, in the same statement.
    """
    db = database()
    quote = db.ops.quote_name
    key = model._meta.pk
    assert key is not None and key.column is not None
    sets, set_parameters = [f"{quote(column)} = {quote(column)} + %s"], [count]
    for name, value in (values or {}).items():
        field: Any = model._meta.get_field(name)
        sets.append(f"{quote(field.column)} = %s")
        set_parameters.append(field.get_db_prep_save(value, db))
    tests, test_parameters = [f"{quote(key.column)} = %s"], [key.get_db_prep_value(pk, db)]
    for name, value in (where or {}).items():
        options = value if isinstance(value, tuple) else (value,)
        tests.append(f"{quote(name)} IN ({', '.join(['%s'] * len(options))})")
        test_parameters.extend(options)
    sql = (  # names come from the models, values are parameters
        f"UPDATE {quote(model._meta.db_table)} SET {', '.join(sets)} "  # noqa: S608
        f"WHERE {' AND '.join(tests)} RETURNING {quote(column)}"
    )
    with cursor_of_kept(db) as cursor:
        cursor.execute(sql, [*set_parameters, *test_parameters])
        row = cursor.fetchone()
    return row[0] if row else None
