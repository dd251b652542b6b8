"""Receives messages that other processes publish: one thread reads one connection for any number of
subscribers.

The client's own listening loop costs more than the message, so the connection is read directly.
Messages are notifications: an unavailable broker loses them, and every subscriber finds what it
missed in the rows.
"""

import asyncio
import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
from django.conf import settings

from plumbing.broker.servers import make_pool
from plumbing.threads import ProcessThread

log = logging.getLogger(__name__)
# Seconds between attempts to reach the broker.
AGAIN_S = 1.0
Loop = asyncio.AbstractEventLoop
# Receives a message. None: the subscription is active from now on; earlier messages may have been missed.
Hear = Callable[[bytes | None], None]


class Listener:
    """Subscribers by channel. The thread starts with the first of them, and again in a forked
    child.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.subscribers: dict[bytes, dict[Hear, Loop | None]] = {}
        self.standing: set[bytes] = set()
        self.changed = threading.Condition(self.lock)
        self.wanted: list[tuple[bytes, bytes]] = []  # (SUBSCRIBE or UNSUBSCRIBE, channel), not sent yet
        self.thread = ProcessThread("listener", self.listen_for_ever)

    def subscribe(self, channel: bytes, hear: Hear, *, loop: Loop | None = None) -> None:
        """`hear` is called in this thread, which it must not block, or on `loop` if one is given."""
        with self.lock:
            is_first = channel not in self.subscribers
            self.subscribers.setdefault(channel, {})[hear] = loop
            if not self.thread.is_started():
                self.start()
            elif is_first:
                self.ask(b"SUBSCRIBE", channel)
            is_standing = channel in self.standing
        if is_standing:
            give(hear, loop, None)

    def unsubscribe(self, channel: bytes, hear: Hear) -> None:
        with self.lock:
            subscribers = self.subscribers.get(channel, {})
            subscribers.pop(hear, None)
            if not subscribers and self.subscribers.pop(channel, None) is not None:
                self.standing.discard(channel)
                self.ask(b"UNSUBSCRIBE", channel)

    def is_standing(self, channel: bytes) -> bool:
        """Whether this process receives this channel now."""
        return channel in self.standing and self.thread.is_started()

    def wait_until_standing(self, channel: bytes, seconds: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: channel in self.standing, seconds)

    # -- the thread -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.standing.clear()
        # A new connection must wake the thread.
        self.bell, self.ear = socket.socketpair()
        self.bell.setblocking(False)
        self.thread.start()

    def ask(self, verb: bytes, channel: bytes) -> None:
        self.wanted.append((verb, channel))
        with suppress(BlockingIOError):  # a wake-up is pending already
            self.bell.send(b"!")

    def listen_for_ever(self) -> None:
        while True:
            line = make_pool(settings.CHANNEL_URL, socket_timeout=None).make_connection()
            try:
                self.listen(line)
            except (redis.RedisError, OSError) as error:
                log.info("The broker is unavailable; subscribing again in %s s: %s", AGAIN_S, error)
            finally:
                self.standing.clear()
                line.disconnect()
            time.sleep(AGAIN_S)

    def listen(self, line: Any) -> None:
        line.connect()
        with self.lock:
            self.wanted = [(b"SUBSCRIBE", channel) for channel in self.subscribers]
        poll = select.poll()
        for one in (line._sock, self.ear):
            poll.register(one, select.POLLIN)
        while True:
            self.send_wanted(line)
            rung = {descriptor for descriptor, _ in poll.poll()}
            if self.ear.fileno() in rung:
                self.ear.recv(4096)
            if rung - {self.ear.fileno()}:
                self.read(line)

    def send_wanted(self, line: Any) -> None:
        with self.lock:
            changes, self.wanted = self.wanted, []
        if changes:
            line.send_packed_command(line.pack_commands(changes), check_health=False)

    def read(self, line: Any) -> None:
        """Everything that has arrived."""
        while True:
            kind, channel, data = line.read_response(disconnect_on_error=False, push_request=True)
            if kind == b"message":
                self.hand_over(channel, data)
            elif kind == b"subscribe":
                self.stands(channel)
            if not line.can_read(timeout=0):
                return

    def stands(self, channel: bytes) -> None:
        with self.changed:
            if channel not in self.subscribers:
                return
            self.standing.add(channel)
            self.changed.notify_all()
        self.hand_over(channel, None)

    def hand_over(self, channel: bytes, data: bytes | None) -> None:
        for hear, loop in [*self.subscribers.get(channel, {}).items()]:
            give(hear, loop, data)


def give(hear: Hear, loop: Loop | None, data: bytes | None) -> None:
    if loop is None:
        hear_safely(hear, data)
    else:
        with suppress(RuntimeError):  # the event loop was closed
            loop.call_soon_threadsafe(hear_safely, hear, data)


def hear_safely(hear: Hear, data: bytes | None) -> None:
    """A message that one subscriber cannot read must not stop the thread that serves all of them."""
    try:
        hear(data)
    except Exception:
        log.exception("A message from the broker could not be read: %s", str(data)[:500])


LISTENER = Listener()
