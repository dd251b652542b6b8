"""A few threads for what the event loop must ask the database.

Channels has one such thread, and one more for each request, with a database connection of its own: a thousand event
streams would hold a thousand of them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections, connections

THREADS = ThreadPoolExecutor(8, thread_name_prefix="rows")

Work = Callable[..., Any]


async def in_thread(work: Work, *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(THREADS, answer, work, *arguments)


def answer(work: Work, *arguments: Any) -> Any:
    """With a live connection, which PostgreSQL's pool gets back."""
    close_old_connections()
    try:
        return work(*arguments)
    finally:
        for one in connections.all(initialized_only=True):
            if one.vendor != "sqlite":
                one.close()


def release_connection() -> None:
    """Give the database connection back before a long wait; a pool of twenty then serves hundreds of runs."""
    for connection in connections.all(initialized_only=True):
        if connection.vendor != "sqlite" and not connection.in_atomic_block:
            connection.close()
