"""A few threads for database work of the event loop.

Channels would use a thread, and a database connection, for each request: a thousand event streams
would hold a thousand of them.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, connections

from plumbing import waits
from plumbing.resting import RestingThreads

THREADS = RestingThreads(8, "rows")

Work = Callable[..., Any]


async def in_thread(work: Work, *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(THREADS, answer, work, *arguments)


def answer(work: Work, *arguments: Any) -> Any:
    """Runs with a live connection, which is returned to PostgreSQL's pool."""
    close_old_connections()
    try:
        return work(*arguments)
    finally:
        for one in connections.all(initialized_only=True):
            if one.vendor != "sqlite":
                one.close()


def release_connection() -> None:
    """Return the database connection before a long wait; a pool of twenty can then serve hundreds
    of runs. In a hub it is left to the siblings.
    """
    if waits.is_hub():
        return
    for connection in connections.all(initialized_only=True):
        if connection.vendor != "sqlite" and not connection.in_atomic_block:
            connection.close()
