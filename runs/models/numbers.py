"""Numbers without gaps or doubles: one UPDATE … RETURNING on the parent row, which may change, check and ask more."""

from collections.abc import Sequence
from typing import Any

from django.db import models

from plumbing.prepared import Question, cursor_of_kept, database


def take_numbers(
    model: type[models.Model],
    pk: Any,
    column: str,
    count: int = 1,
    *,
    where: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    asking: Sequence[Question] = (),
) -> tuple[int, ...] | None:
    """Add `count` to an integer column; the last number taken, then a 1 or 0 for each question. None: no row matched.

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
        field = model._meta.get_field(name)
        options = [field.get_db_prep_value(one, db) for one in (value if isinstance(value, tuple) else (value,))]
        if value is None:
            tests.append(f"{quote(field.column)} IS NULL")
        else:
            tests.append(f"{quote(field.column)} IN ({', '.join(['%s'] * len(options))})")
            test_parameters.extend(options)
    told = [quote(column), *(question for question, _ in asking)]
    told_parameters = [parameter for _, parameters in asking for parameter in parameters]
    sql = (  # names come from the models, values are parameters
        f"UPDATE {quote(model._meta.db_table)} SET {', '.join(sets)} "  # noqa: S608
        f"WHERE {' AND '.join(tests)} RETURNING {', '.join(told)}"
    )
    with cursor_of_kept(db) as cursor:
        cursor.execute(sql, [*set_parameters, *test_parameters, *told_parameters])
        return cursor.fetchone()
