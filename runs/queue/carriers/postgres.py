"""NOTIFY and LISTEN of the database itself: runs then need no broker. Every worker of a pool wakes.

A listening connection must stay with its server process, so a pooler in transaction mode passes no
wake-ups on; workers then only find work by looking.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections

from . import Bell, keep_hearing

log = logging.getLogger(__name__)
# The payload is the pool.
CHANNEL = "muster_ready"
# Seconds that one call listens; a stop is noticed after that.
LISTEN_S = 1.0


class Notify:
    wakes_one = False

    def ring(self, pool: str) -> bool:
        try:
            with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, pool])
        except DatabaseError as error:
            log.warning("No worker could be woken: %s. One looks by itself within seconds.", error)
            return False
        return True

    def listen(self, pools: Sequence[str], bell: Bell, stopping: threading.Event) -> None:
        # Not installed where only SQLite is used.
        import psycopg

        def listen_on(line: Any) -> None:
            hear(line, pools, bell, stopping)

        keep_hearing(connect_listener, listen_on, (psycopg.Error,), stopping)

    def problem(self) -> str:
        try:
            with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
                cursor.execute("SELECT 1")
        except DatabaseError as error:
            return str(error).strip()
        return ""


def connect_listener() -> Any:
    """A connection of its own, with the settings of the others; it belongs to no pool of them."""
    import psycopg  # as above

    parameters = connections[DEFAULT_DB_ALIAS].get_connection_params()
    return psycopg.connect(**parameters, autocommit=True)


def hear(line: Any, pools: Sequence[str], bell: Bell, stopping: threading.Event) -> None:
    """Until the worker stops, or the connection breaks."""
    line.execute(f"LISTEN {CHANNEL}")
    while not stopping.is_set():
        for notice in line.notifies(timeout=LISTEN_S):
            if notice.payload in pools:
                bell(notice.payload)
            if stopping.is_set():
                return
