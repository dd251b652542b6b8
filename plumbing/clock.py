"""The database's clock. Leases are written and compared with it, since the clocks of hosts differ.

PostgreSQL answers with the time of its server. SQLite has no server: its clock is that of the
machine, on which all its processes run.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models

from plumbing.statements import database

# A reading is renewed after that.
OLD_S = 10.0
STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Now(models.Func):
    """The time of the database, `seconds` later. For comparisons and values inside a statement."""

    output_field = models.DateTimeField()

    def __init__(self, seconds: Any = 0.0, **extra: Any) -> None:
        """`seconds`: a number, or a placeholder of a compiled statement."""
        value = models.Value(float(seconds)) if isinstance(seconds, int | float) else seconds
        super().__init__(value, output_field=models.DateTimeField(), **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "(STATEMENT_TIMESTAMP() + make_interval(secs => (%(expressions)s)::float8))"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """The text that Django writes, so that a time that was read is found again by equality."""
        read = "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f', 'NOW', %(expressions)s || ' seconds')"
        template = f"REPLACE({read} || '000', '.000000', '')"
        return self.as_sql(compiler, connection, template=template, **extra)


class Reading:
    """The last time that this process read, and when that was in `seconds()`."""

    last: tuple[datetime, float] | None = None


def read_steady_seconds() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(STEADY)


def is_old() -> bool:
    return Reading.last is None or read_steady_seconds() - Reading.last[1] > OLD_S


def store_database_time(read: datetime) -> None:
    """The database just answered with this time."""
    Reading.last = read.astimezone(UTC), read_steady_seconds()


def near() -> datetime:
    """The time of the database without a statement: the last reading and the time since then. For
    the times of a run, which other hosts compare. Before the first reading, this machine's time.

    `config/postgresql/base.py` reads the time when a connection is taken, every few seconds.
    """
    if Reading.last is None:
        return datetime.now(UTC)
    read, at = Reading.last
    return read + timedelta(seconds=read_steady_seconds() - at)


def local(moment: datetime) -> datetime:
    """A time of the database on this machine's clock."""
    return moment + (datetime.now(UTC) - near()) if Reading.last else moment


def now() -> datetime:
    """The time of the database, for comparisons in Python. It is as old as the statement that read
    it, so a lease is never taken for expired too early.
    """
    db = database()
    if db.vendor == "sqlite":
        return datetime.now(UTC)
    with db.cursor() as cursor:
        cursor.execute("SELECT STATEMENT_TIMESTAMP()")
        (read,) = cursor.fetchone()
    return read.astimezone(UTC)
