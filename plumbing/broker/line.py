"""Commands to a Redis server over one connection per thread, without redis-py's client.

The client spends more on a command (pool, locks, retries, callbacks) than the connection, the
server and the command together; a message needs a dozen. Code that needs more than a reply uses the
client.
"""

import os
import threading
from collections import deque
from time import monotonic
from typing import Any

import redis

from plumbing.broker.servers import make_pool

Command = tuple[str | bytes | int | float, ...]
# Groups of commands whose replies wait to be read.
MOST_UNREAD = 64


class Line:
    """Connections to one server, each made by the first command of its thread."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.pool = make_pool(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        self.timeout_s = timeout_s
        self.own = threading.local()

    def ask(self, *commands: Command) -> list[Any]:
        """Replies in order, in one round trip. Raises RedisError.

        A connection that broke while idle is made anew and the commands are sent again. The
        connection may have broken after the server executed them, so callers must accept commands
        that run twice.
        """
        if (kept := self.kept()) is not None:
            try:
                return self.exchange(kept, commands)
            except redis.ConnectionError:
                pass
        return self.exchange(self.fresh(), commands)

    def send(self, *commands: Command) -> None:
        """Commands whose replies nobody needs: they are read with those of the next commands, so this waits for
        nothing. Raises RedisError.

        If the connection turns out to be broken by then, what was sent a moment ago is sent again.
        """
        kept = self.kept()
        if kept is not None and len(self.own.unread) >= MOST_UNREAD:
            self.ask(("PING",))
            kept = self.kept()
        if kept is not None:
            try:
                self.write_unread(kept, commands, monotonic())
                return
            except redis.ConnectionError:
                pass
        self.write_unread(self.fresh(), commands, monotonic())

    def exchange(self, connection: Any, commands: tuple[Command, ...]) -> list[Any]:
        """Every reply is read, including errors, so that the connection is clean for the next command."""
        try:
            write_commands(connection, commands)
            self.read_unread(connection)
            replies = [read_reply(connection) for _ in commands]
        except BaseException:
            self.abandon(connection)
            raise
        for reply in replies:
            if isinstance(reply, redis.ResponseError):
                raise reply
        return replies

    def write_unread(self, connection: Any, commands: tuple[Command, ...], sent_at: float) -> None:
        try:
            write_commands(connection, commands)
        except BaseException:
            self.abandon(connection)
            raise
        self.own.unread.append((sent_at, commands))

    def read_unread(self, connection: Any) -> None:
        """The replies to what was sent before. An error among them is of no interest."""
        while self.own.unread:
            _, commands = self.own.unread[0]
            for _ in commands:
                read_reply(connection)
            self.own.unread.popleft()

    def kept(self) -> Any:
        """This thread's connection; one that was made before a fork belongs to the parent."""
        return self.own.connection if getattr(self.own, "pid", None) == os.getpid() else None

    def abandon(self, connection: Any) -> None:
        connection.disconnect()
        self.own.connection = None

    def fresh(self) -> Any:
        """A new connection for this thread. What may have been lost with the last one is sent again."""
        is_same_process = getattr(self.own, "pid", None) == os.getpid()
        unread = self.own.unread if is_same_process else ()
        self.own.pid, self.own.connection, self.own.unread = os.getpid(), None, deque()
        connection = self.pool.make_connection()
        connection.connect()
        for sent_at, commands in unread:
            if monotonic() - sent_at < self.timeout_s:
                self.write_unread(connection, commands, sent_at)
        self.own.connection = connection
        return connection


def write_commands(connection: Any, commands: tuple[Command, ...]) -> None:
    connection.send_packed_command(connection.pack_commands(commands), check_health=False)


def read_reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error
