"""A connection pool that returns the most recently used connection, whose server process has its
caches filled, and that checks all others once one of them is broken.

psycopg's pool returns the connection that rested longest. With twenty connections every statement
is then parsed and planned twenty times, by server processes with cold caches. (The pool closes
unused connections one at a time.)
"""

import threading
from collections import deque
from typing import Any

from django.db.backends.postgresql import base

from plumbing import clock


class Stack(deque):
    """The pool appends returned connections on the right and takes from the left."""

    def append(self, connection: Any) -> None:
        self.appendleft(connection)


class DatabaseWrapper(base.DatabaseWrapper):
    def init_connection_state(self) -> None:
        """Read the time of the server, unless this process did so a few seconds ago."""
        super().init_connection_state()
        if clock.is_old():
            (read,) = self.connection.execute("SELECT STATEMENT_TIMESTAMP()").fetchone()
            clock.keep(read)

    def _close(self) -> None:
        """A server that restarts breaks every connection: without a look at those that rest, each would fail a request.

        On a thread of its own, because a connection whose network is down answers late.
        """
        is_broken = self.connection is not None and self.connection.closed
        super()._close()
        if is_broken and self.pool is not None:
            threading.Thread(target=self.pool.check, name="pool-check", daemon=True).start()

    @property
    def pool(self) -> Any:
        pool = super().pool
        if pool is not None and not isinstance(pool._pool, Stack):
            with pool._lock:
                pool._pool = Stack(pool._pool)
        return pool
