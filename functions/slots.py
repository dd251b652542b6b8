"""Limits the concurrent calls of one function across all processes. A crashed caller's slot expires
on its own.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import redis
from django.conf import settings

from plumbing.broker.broadcast import name_channel
from plumbing.broker.servers import make_pool

# Members are callers, scores are the expiry times of their slots.
TAKE = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1
"""


@lru_cache(maxsize=1)
def connection() -> redis.Redis:
    pool = make_pool(settings.CACHE_URL, socket_timeout=1, socket_connect_timeout=1)
    return redis.Redis(connection_pool=pool)


@contextmanager
def take_slot_if_free(function_id: int, limit: int, seconds: float) -> Iterator[bool]:
    """Yields whether a slot was free; always true without a limit or without the cache."""
    if not limit:
        yield True
        return
    key, token = name_channel("function-slots", function_id), uuid.uuid4().hex
    slot = take_slot(key, token, limit, seconds + 10)
    try:
        yield slot
    finally:
        if slot:
            give_back(key, token)


def take_slot(key: bytes, token: str, limit: int, seconds: float) -> bool:
    now = time.time()
    ends = now + seconds
    try:
        is_taken = connection().eval(TAKE, 1, key, now, limit, ends, token, int(seconds) + 1)
    except redis.RedisError:
        # Losing the limit temporarily is better than losing the service.
        return True
    return bool(is_taken)


def give_back(key: bytes, token: str) -> None:
    try:
        connection().zrem(key, token)
    except redis.RedisError:
        # It expires on its own.
        return
