"""One row, changed on a condition, with numbers taken from it."""

from collections.abc import Sequence
from typing import Any

from django.db import models

from .binding import Bound, Question, cursor_of_kept, database


def take_numbers(
    model: type[models.Model],
    pk: Any,
    column: str,
    count: int = 1,
    *,
    where: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    asking: Sequence[Question] = (),
    floor: Bound | None = None,
) -> tuple[int, ...] | None:
    """Add `count` to an integer column; returns the last number taken, then 1 or 0 for each
    question. None: no row matched.

    `where` holds further conditions (a tuple means “one of”), `values` further columns to set, in
    the same statement. `floor` is a number that the column is at least counted from, or NULL.
    """
    db = database()
    quote = db.ops.quote_name
    sets, set_parameters = assignments(model, column, count, values or {}, floor, db)
    tests, test_parameters = conditions(model, pk, where or {}, db)
    answers = [quote(column), *(question for question, _ in asking)]
    answer_parameters = [parameter for _, parameters in asking for parameter in parameters]
    sql = (  # names come from the models, values are parameters
        f"UPDATE {quote(model._meta.db_table)} SET {', '.join(sets)} "  # noqa: S608
        f"WHERE {' AND '.join(tests)} RETURNING {', '.join(answers)}"
    )
    with cursor_of_kept(db) as cursor:
        cursor.execute(sql, [*set_parameters, *test_parameters, *answer_parameters])
        return cursor.fetchone()


def assignments(
    model: type[models.Model], column: str, count: int, values: dict[str, Any], floor: Bound | None, db: Any
) -> tuple[list[str], list[Any]]:
    """What SET says, and its parameters. A value may be computed by the database."""
    quote = db.ops.quote_name
    last, parameters = quote(column), []
    if floor is not None:
        greatest = "MAX" if db.vendor == "sqlite" else "GREATEST"
        last, parameters = f"{greatest}({last}, COALESCE({floor.sql}, 0))", list(floor.parameters)
    sets = [f"{quote(column)} = {last} + %s"]
    parameters.append(count)
    for name, value in values.items():
        field: Any = model._meta.get_field(name)
        computed = value if isinstance(value, Bound) else Bound("%s", (field.get_db_prep_save(value, db),))
        sets.append(f"{quote(field.column)} = {computed.sql}")
        parameters.extend(computed.parameters)
    return sets, parameters


def conditions(model: type[models.Model], pk: Any, where: dict[str, Any], db: Any) -> tuple[list[str], list[Any]]:
    """What WHERE says, and its parameters."""
    quote, key = db.ops.quote_name, model._meta.pk
    assert key is not None and key.column is not None
    tests, parameters = [f"{quote(key.column)} = %s"], [key.get_db_prep_value(pk, db)]
    for name, value in where.items():
        field: Any = model._meta.get_field(name)
        if value is None:
            tests.append(f"{quote(field.column)} IS NULL")
            continue
        options = [field.get_db_prep_value(one, db) for one in (value if isinstance(value, tuple) else (value,))]
        tests.append(f"{quote(field.column)} IN ({', '.join(['%s'] * len(options))})")
        parameters.extend(options)
    return tests, parameters
