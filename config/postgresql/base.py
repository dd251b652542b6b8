"""A pool hands out the connection that was given back last: what its server process knows by heart is still in mind.

psycopg's pool hands out the one that has rested longest. With twenty connections every statement is then parsed and
planned twenty times, and each finds a server process whose caches have gone cold. (While some rest unused, the pool
closes one at a time.)
"""

from collections import deque
from typing import Any

from django.db.backends.postgresql import base


class Stack(deque):
    """A pool appends what comes back and takes from the left."""

    def append(self, connection: Any) -> None:
        self.appendleft(connection)


class DatabaseWrapper(base.DatabaseWrapper):
    @property
    def pool(self) -> Any:
        pool = super().pool
        if pool is not None and not isinstance(pool._pool, Stack):
            with pool._lock:
                pool._pool = Stack(pool._pool)
        return pool
