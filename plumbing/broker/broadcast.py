"""Publishes messages to all listening processes (`plumbing/broker/listener.py`), from synchronous code.

Rows are authoritative and a message is only a notification: an unavailable broker is not an error.
"""

from functools import lru_cache
from typing import Any

import redis
from django.conf import settings

from plumbing import json_values
from plumbing.broker.clusters import TAG
from plumbing.broker.line import Line

# A dictionary is sent as JSON.
Message = dict[str, Any] | bytes


@lru_cache(maxsize=1)
def server_connection() -> Line:
    """Send commands to the broker's server, PUBLISH or others."""
    return Line(settings.CHANNEL_URL, timeout_s=5)


def name_channel(*words: Any) -> bytes:
    """The name of a channel, or of a key: "{muster}:run:0192…"."""
    return ":".join((TAG, *map(str, words))).encode()


def publish_message(channel: bytes, message: Message) -> bool:
    """Send one message and wait until the broker has it. False if the broker is unavailable."""
    return publish_many([(channel, message)])


def publish_many(messages: list[tuple[bytes, Message]]) -> bool:
    """Send several messages and wait until the broker has them. False if the broker is unavailable.

    A call to a device goes this way: its row counts as sent only if this says so.
    """
    commands = [publish_command(channel, message) for channel, message in messages]
    try:
        server_connection().ask(*commands)
    except redis.RedisError:
        return False
    return True


def publish_unconfirmed(messages: list[tuple[bytes, Message]]) -> None:
    """Send several messages without waiting for the broker, which may lose them.

    The events of a run go this way, many for each message: whoever watches a run finds what was lost in its rows.
    """
    commands = [publish_command(channel, message) for channel, message in messages]
    try:
        server_connection().send(*commands)
    except redis.RedisError:
        pass  # an unavailable broker is not an error


def publish_command(channel: bytes, message: Message) -> tuple[bytes | str, ...]:
    return "PUBLISH", channel, as_bytes(message)


def as_bytes(message: Message) -> bytes:
    return message if isinstance(message, bytes) else json_values.dump_json(message)


def is_reachable() -> bool:
    """Whether the broker's server answers. Also for commands that work while nothing is served."""
    try:
        return bool(server_connection().ask(("PING",)))
    except redis.RedisError:
        return False
