"""Send a message to a channel group from plain synchronous code: one PUBLISH, no event loop.

Speaks the wire format of `channels_redis.pubsub` (msgpack on a prefixed channel name), so that consumers in any server
process receive it as if `group_send` had been called. tests/agents/test_broadcast.py holds the two together.
"""

from functools import lru_cache
from typing import Any

import msgpack
import redis
from django.conf import settings

from .line import Line


@lru_cache(maxsize=1)
def line() -> Line:
    """To the layer's server; for what is no message to a group as well."""
    return Line(settings.CHANNEL_URL, timeout_s=5)


def group_channel(group: str) -> str:
    return f"{settings.CHANNEL_LAYERS['default']['CONFIG'].get('prefix', 'asgi')}__group__{group}"


def publish(group: str, message: dict[str, Any]) -> bool:
    """Send one message to a group. False when the layer is down: rows are the truth, the message only a nudge."""
    return publish_many([(group, message)])


def publish_many(messages: list[tuple[str, dict[str, Any]]], plain: list[tuple[str, str]] | None = None) -> bool:
    """Send several in one round trip; `plain` ones are text on a channel of that very name."""
    if not is_shared():
        return publish_locally(messages)
    try:
        line().ask(
            *(("PUBLISH", group_channel(group), msgpack.packb(message)) for group, message in messages),
            *(("PUBLISH", channel, text) for channel, text in plain or ()),
        )
    except redis.RedisError:
        return False
    return True


def is_reachable() -> bool:
    """Is the layer's server there? For commands that also work where nothing is served."""
    try:
        return is_shared() and bool(line().ask(("PING",)))
    except redis.RedisError:
        return False


def is_shared() -> bool:
    return "pubsub" in settings.CHANNEL_LAYERS["default"]["BACKEND"]


def publish_locally(messages: list[tuple[str, dict[str, Any]]]) -> bool:
    """Tests without a broker use the in-memory layer."""
    from asgiref.sync import async_to_sync
    from channels.layers import get_channel_layer

    layer = get_channel_layer()
    for group, message in messages:
        async_to_sync(layer.group_send)(group, message)
    return True
