"""A few threads for what a socket must ask the database. Channels has one, which people's sockets share."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections, connection, connections

# SQLite has one writer: who waits for it in our own line is served at once, who waits in SQLite's sleeps meanwhile.
THREADS = ThreadPoolExecutor(1 if connection.vendor == "sqlite" else 8, thread_name_prefix="devices")


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(THREADS, answer, work, arguments)


def answer(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """With a live connection of its own, which PostgreSQL's pool gets back."""
    close_old_connections()
    try:
        return work(*arguments)
    finally:
        for one in connections.all(initialized_only=True):
            if one.vendor != "sqlite":
                one.close()
