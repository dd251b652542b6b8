"""What workers and other servers tell the devices of this server process: one subscriber, whatever number of sockets.

Channels' consumers each take two subscriptions, two tasks and a hop to a thread for each message. A device's socket
takes one subscription, and its messages are handed over where they are read. Same channels, same wire format.
"""

import asyncio
import contextlib
import logging
from typing import Any, Protocol
from uuid import UUID

import msgpack
from django.conf import settings
from redis import asyncio as redis
from redis.exceptions import RedisError

from plumbing import broadcast

log = logging.getLogger(__name__)
AGAIN_S = 1.0


class Listener(Protocol):
    device: Any

    def on_nudge(self, message: dict[str, Any]) -> None: ...


class Nudges:
    """Belongs to the event loop. `channels`: who listens to which device."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.forget()

    def forget(self) -> None:
        """Nobody listens, nothing is connected: so it is for a loop that is new."""
        self.channels: dict[bytes, set[Listener]] = {}
        self.line: redis.Connection | None = None
        self.task: asyncio.Task | None = None
        self.lock = asyncio.Lock()

    async def add(self, listener: Listener) -> None:
        """From now on it hears what is told to its device. A layer that is down is listened to once it is back."""
        self.begin()
        channel = channel_of(listener.device.pk)
        is_first = channel not in self.channels
        self.channels.setdefault(channel, set()).add(listener)
        if is_first:
            await self.change(b"SUBSCRIBE", channel)

    async def remove(self, listener: Listener) -> None:
        channel = channel_of(listener.device.pk)
        listeners = self.channels.get(channel, set())
        listeners.discard(listener)
        if not listeners and self.channels.pop(channel, None) is not None:
            await self.change(b"UNSUBSCRIBE", channel)

    def begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            self.loop = loop
            self.forget()
        if self.task is None or self.task.done():
            self.task = loop.create_task(self.listen_for_ever())

    async def change(self, verb: bytes, channel: bytes) -> None:
        if self.line is None:
            return  # the listener subscribes to all of them when it has its connection
        async with self.lock:
            with contextlib.suppress(RedisError, OSError):
                await self.line.send_command(verb, channel)

    async def listen_for_ever(self) -> None:
        while True:
            try:
                await self.listen()
            except (RedisError, OSError) as error:
                log.info("Listening for devices again in a second: %s", error)
            await asyncio.sleep(AGAIN_S)

    async def listen(self) -> None:
        """Reads the connection itself: the client's own loop of listening costs as much as all the rest of a call."""
        line = redis.ConnectionPool.from_url(settings.CHANNEL_URL, socket_timeout=None).make_connection()
        try:
            await line.connect()
            await line.send_command(b"SUBSCRIBE", NOBODY, *self.channels)
            self.line = line
            while True:
                kind, channel, data = await line.read_response(disconnect_on_error=False, push_request=True)
                if kind == b"message":
                    self.hand_over(channel, data)
        finally:
            self.line = None
            await line.disconnect(nowait=True)

    def hand_over(self, channel: bytes, data: bytes) -> None:
        message = msgpack.unpackb(data)
        for listener in [*self.channels.get(channel, ())]:
            listener.on_nudge(message)


NOBODY = b"muster:nobody"  # SUBSCRIBE takes one channel at least
NUDGES = Nudges()


def channel_of(device_id: UUID) -> bytes:
    return broadcast.group_channel(f"device.{device_id}").encode()
