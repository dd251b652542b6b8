"""Commands to a Redis server over one connection a thread, without the client around it.

redis-py's client spends more on a command (pool, locks, retries, callbacks) than the connection, the server and the
command itself together; a message makes a dozen. Who needs more than a reply uses the client.
"""

import os
import threading
from typing import Any

import redis

Command = tuple[str | bytes | int | float, ...]


class Line:
    """One server's connections, each made by the first command of its thread."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.pool = redis.ConnectionPool.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        self.own = threading.local()

    def ask(self, *commands: Command) -> list[Any]:
        """Replies in order, one round trip. Raises RedisError.

        A connection that broke while idle is made anew and the commands are sent once more: whoever asks must be fine
        with a command that is done twice, as the break may have come between the server's doing and its reply.
        """
        if (kept := self.kept()) is not None:
            try:
                return exchange(kept, commands)
            except redis.ConnectionError:
                kept.disconnect()
        return exchange(self.fresh(), commands)

    def kept(self) -> Any:
        """This thread's connection; one that was made before a fork is the parent's."""
        return self.own.connection if getattr(self.own, "pid", None) == os.getpid() else None

    def fresh(self) -> Any:
        self.own.pid = None
        self.own.connection = self.pool.make_connection()
        self.own.connection.connect()
        self.own.pid = os.getpid()
        return self.own.connection


def exchange(connection: Any, commands: tuple[Command, ...]) -> list[Any]:
    """Every reply is read, an error among them too, so that the next command finds the connection clean."""
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
