"""Publish to whatever processes listen (`plumbing/listener.py`): one round trip, no event loop.

Rows are the truth and a message is only a nudge: a broker that is down is no error.
"""

from functools import lru_cache
from typing import Any

import orjson
import redis
from django.conf import settings

from .line import Line

Message = dict[str, Any] | bytes  # a dictionary is sent as JSON


@lru_cache(maxsize=1)
def line() -> Line:
    """To the broker's server; for commands other than PUBLISH as well."""
    return Line(settings.CHANNEL_URL, timeout_s=5)


def channel_of(*words: Any) -> bytes:
    """The name of a channel, or of a key: "muster:run:0192…"."""
    return ":".join(("muster", *map(str, words))).encode()


def publish(channel: bytes, message: Message) -> bool:
    """Send one message. False when the broker is down."""
    return publish_many([(channel, message)])


def publish_many(messages: list[tuple[bytes, Message]]) -> bool:
    """Send several in one round trip."""
    try:
        line().ask(*(("PUBLISH", channel, as_bytes(message)) for channel, message in messages))
    except redis.RedisError:
        return False
    return True


def as_bytes(message: Message) -> bytes:
    return message if isinstance(message, bytes) else orjson.dumps(message, default=str)


def is_reachable() -> bool:
    """Does the broker's server answer? For commands that also work where nothing is served."""
    try:
        return bool(line().ask(("PING",)))
    except redis.RedisError:
        return False
