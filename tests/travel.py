"""Time that passes for a test: for this process, and for PostgreSQL, whose clock time-machine does not move."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import patch

import time_machine
from django.db import connection
from django.utils import timezone

from plumbing import clock

# A function in front of PostgreSQL's own of that name: statements that are kept are planned again for the new path.
LATER = """CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pg_catalog.statement_timestamp() + make_interval(secs => {})'"""


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """So much later, on both clocks. On PostgreSQL for a test that is one transaction: others do not see it."""
    with time_machine.travel(timezone.now() + timedelta(seconds=seconds)):
        if connection.vendor != "postgresql":
            yield
            return
        assert connection.in_atomic_block
        with connection.cursor() as cursor:
            cursor.execute(LATER.format(float(seconds)))
            cursor.execute("SET LOCAL search_path = public, pg_catalog")
        with patch.object(clock.Reading, "last", (clock.now(), clock.read_steady_seconds())):
            yield
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path TO DEFAULT")
            cursor.execute("DROP FUNCTION public.statement_timestamp()")
