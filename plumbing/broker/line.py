"""Commands to a Redis server over one connection per thread, without redis-py's client.

The client spends more on a command (pool, locks, retries, callbacks) than the connection, the
server and the command together; a message needs a dozen. Code that needs more than a reply uses the
client.
"""

import os
import threading
from typing import Any

import redis

from plumbing.broker.servers import pool_of

Command = tuple[str | bytes | int | float, ...]


class Line:
    """Connections to one server, each made by the first command of its thread."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.pool = pool_of(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        self.own = threading.local()

    def ask(self, *commands: Command) -> list[Any]:
        """Replies in order, in one round trip. Raises RedisError.

        A connection that broke while idle is made anew and the commands are sent again. The
        connection may have broken after the server executed them, so callers must accept commands
        that run twice.
        """
        if (kept := self.kept()) is not None:
            try:
                return exchange(kept, commands)
            except redis.ConnectionError:
                kept.disconnect()
        return exchange(self.fresh(), commands)

    def kept(self) -> Any:
        """This thread's connection; one that was made before a fork belongs to the parent."""
        return self.own.connection if getattr(self.own, "pid", None) == os.getpid() else None

    def fresh(self) -> Any:
        self.own.pid = None
        self.own.connection = self.pool.make_connection()
        self.own.connection.connect()
        self.own.pid = os.getpid()
        return self.own.connection


def exchange(connection: Any, commands: tuple[Command, ...]) -> list[Any]:
    """Every reply is read, including errors, so that the connection is clean for the next command."""
    connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    replies = [read(connection) for _ in commands]
    for reply in replies:
        if isinstance(reply, redis.ResponseError):
            raise reply
    return replies


def read(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error
