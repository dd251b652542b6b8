"""A few threads for database work of the event loop.

Channels would use a thread, and a database connection, for each request: a thousand event streams
would hold a thousand of them.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, connections

from plumbing import waits
from plumbing.idle_thread_pool import RestingThreads

THREADS = RestingThreads(8, "rows")

Work = Callable[..., Any]


class ProcessThread:
    """A thread that starts once in each process, when it is first needed, and ends with the process.

    `start` is called by one thread at a time: the event loop's, or whoever holds the caller's lock.
    """

    def __init__(self, name: str, work: Work) -> None:
        self.name, self.work = name, work
        self.process = 0

    def is_started(self) -> bool:
        """False in a process that was forked from one with this thread: threads are not copied."""
        return self.process == os.getpid()

    def start(self) -> None:
        if not self.is_started():
            self.process = os.getpid()
            threading.Thread(target=self.work, name=self.name, daemon=True).start()


async def in_thread(work: Work, *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(THREADS, run_with_connection, work, *arguments)


def run_with_connection(work: Work, *arguments: Any) -> Any:
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
