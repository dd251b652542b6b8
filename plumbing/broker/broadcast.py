"""Publishes to all listening processes (`plumbing/broker/listener.py`), without an event loop.

Rows are authoritative and a message is only a notification: an unavailable broker is not an error.
"""

from functools import lru_cache
from typing import Any

import redis
from django.conf import settings

from plumbing import json_values
from plumbing.broker.clusters import TAG
from plumbing.broker.line import Line

Message = dict[str, Any] | bytes  # a dictionary is sent as JSON


@lru_cache(maxsize=1)
def server_connection() -> Line:
    """Send commands to the broker's server, PUBLISH or others."""
    return Line(settings.CHANNEL_URL, timeout_s=5)


def channel_of(*words: Any) -> bytes:
    """The name of a channel, or of a key: "{muster}:run:0192…"."""
    return ":".join((TAG, *map(str, words))).encode()


def publish(channel: bytes, message: Message) -> bool:
    """Send one message. False if the broker is unavailable."""
    return publish_many([(channel, message)])


def publish_many(messages: list[tuple[bytes, Message]]) -> bool:
    """Send several in one round trip, for callers that do something else when the broker is unavailable (False)."""
    try:
        server_connection().ask(*map(as_command, messages))
    except redis.RedisError:
        return False
    return True


def publish_unconfirmed(messages: list[tuple[bytes, Message]]) -> None:
    """Send several without waiting for the broker. If it goes away, they are sent again with this thread's next
    command, or are lost: their readers look at the rows.
    """
    try:
        server_connection().send(*map(as_command, messages))
    except redis.RedisError:
        pass


def as_command(message: tuple[bytes, Message]) -> tuple[bytes | str, ...]:
    channel, content = message
    return "PUBLISH", channel, as_bytes(content)


def as_bytes(message: Message) -> bytes:
    return message if isinstance(message, bytes) else json_values.write(message)


def is_reachable() -> bool:
    """Whether the broker's server answers. Also for commands that work while nothing is served."""
    try:
        return bool(server_connection().ask(("PING",)))
    except redis.RedisError:
        return False
