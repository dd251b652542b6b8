"""Times of many rows, computed by the database itself.

On SQLite, Django's difference and truncation of times call a Python function for each row: a
classification of 16,000 runs called it 100,000 times.
"""

from typing import Any

from django.db.models import F, FloatField, Func, TextField
from django.db.models.functions import Cast, Left

# Characters of a time as databases write it, in UTC: “2026-06-01 08:00:00.123456”.
DAY = 10
HOUR = 13


class Seconds(Func):
    """Seconds from the second time to the first; on SQLite right to a ten-thousandth."""

    template = "EXTRACT(EPOCH FROM (%(expressions)s))"
    arg_joiner = " - "
    output_field = FloatField()

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        to, since = (Func(moment, function="julianday") for moment in self.source_expressions)
        days = Seconds(to, since)
        return days.as_sql(compiler, connection, template="((%(expressions)s) * 86400)", **more)


def truncate_time(name: str, length: int) -> Left:
    """The DAY or HOUR of the time in this column, as text."""
    text = Cast(F(name), TextField())
    return Left(text, length)
