"""Numbers without gaps or doubles: one UPDATE … RETURNING on the parent row."""

from typing import Any

from django.db import connection, models


def take_numbers(model: type[models.Model], pk: Any, column: str, count: int = 1) -> int:
    """Add `count` to an integer column and return the last number taken. Raises DoesNotExist."""
    table, key = model._meta.db_table, model._meta.pk
    assert key is not None
    quote = connection.ops.quote_name
    sql = (  # names come from the model, values are parameters
        f"UPDATE {quote(table)} SET {quote(column)} = {quote(column)} + %s "  # noqa: S608
        f"WHERE {quote(key.column)} = %s RETURNING {quote(column)}"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [count, key.get_db_prep_value(pk, connection)])
        row = cursor.fetchone()
    if row is None:
        raise model.DoesNotExist  # type: ignore[attr-defined]
    return row[0]
