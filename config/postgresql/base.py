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
from django.db.utils import DatabaseErrorWrapper, OperationalError
from django.utils.functional import cached_property
from psycopg.errors import IdleInTransactionSessionTimeout

from plumbing import clock


class Stack(deque):
    """The pool appends returned connections on the right and takes from the left."""

    def append(self, connection: Any) -> None:
        self.appendleft(connection)


class Errors(DatabaseErrorWrapper):
    """A session that the server ended, because its process stood still in a transaction, counts as an unavailable
    database: what was at work continues later. Django calls it an internal error.
    """

    wrapper: Any

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if exc_type is not None and issubclass(exc_type, IdleInTransactionSessionTimeout):
            self.wrapper.errors_occurred = True
            raise OperationalError(*exc_value.args).with_traceback(traceback) from exc_value
        super().__exit__(exc_type, exc_value, traceback)


class DatabaseWrapper(base.DatabaseWrapper):
    @cached_property
    def wrap_database_errors(self) -> Errors:
        return Errors(self)

    def init_connection_state(self) -> None:
        """Read the time of the server, unless this process did so a few seconds ago."""
        super().init_connection_state()
        if clock.is_old():
            (read,) = self.connection.execute("SELECT STATEMENT_TIMESTAMP()").fetchone()
            clock.store_database_time(read)

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
