"""Rate limits per key and per address: fixed windows of a minute, counted in the shared cache in
one round trip.
"""

from functools import lru_cache
from time import time
from typing import Any

import redis
from django.conf import settings
from rest_framework.throttling import BaseThrottle

from agents.models import ApiKey
from plumbing.broker.broadcast import channel_of
from plumbing.broker.line import Line
from plumbing.http.addresses import client_at

WINDOW_S = 60


@lru_cache(maxsize=1)
def cache_connection() -> Line:
    return Line(settings.CACHE_URL, timeout_s=1)


class Rate(BaseThrottle):
    """Requests per minute for a key (or a login session's user), and for an address.

    When the cache is down, requests pass: missing the limit for a while is better than refusing
    service.
    """

    def allow_request(self, request: Any, view: Any) -> bool:
        """Also stores how near the nearest limit is, for the headers that
        `config.middleware.rate_headers` adds.
        """
        seen = count_request(request.user, request.auth, client_address(request))
        if seen:
            count, limit = min(seen, key=lambda one: one[1] - one[0])
            request._request.rate = (limit, max(0, limit - count), int(until_next()) + 1)
        return all(count <= limit for count, limit in seen)

    def wait(self) -> float:
        return until_next()


def is_within(user: Any, key: Any, address: str) -> bool:
    """Count one request or one frame of a socket; False if it exceeds the limit. A limit of 0 means
    no limit.
    """
    return all(count <= limit for count, limit in count_request(user, key, address))


def count_request(user: Any, key: Any, address: str) -> list[tuple[int, int]]:
    """Count one request; for each limit that applies (requests in this window, limit)."""
    caller = f"k{key.pk}" if isinstance(key, ApiKey) else f"u{user.pk}"
    limits = [(caller, settings.RATE_PER_KEY if user.pk else 0), (f"a{client_at(address)}", settings.RATE_PER_ADDRESS)]
    limits = [(name, limit) for name, limit in limits if limit > 0]
    counts = count_in_windows([name for name, _ in limits]) if limits else []
    return [(seen, limit) for seen, (_, limit) in zip(counts, limits, strict=True)]


def until_next() -> float:
    """Seconds until the next window."""
    return WINDOW_S - time() % WINDOW_S


def count_in_windows(names: list[str]) -> list[int]:
    window = int(time() // WINDOW_S)
    keys = [channel_of("rate", name, window) for name in names]
    try:
        seen = cache_connection().ask(
            *(command for key in keys for command in (("INCR", key), ("EXPIRE", key, 2 * WINDOW_S)))
        )
        return seen[::2]
    except redis.RedisError:
        return [0] * len(names)


def client_address(request: Any) -> str:
    """The address the server saw; a trusted proxy's X-Forwarded-For is applied by the server before us."""
    return request.META.get("REMOTE_ADDR", "")


def find_client(request: Any) -> str:
    """Whose requests are counted together: an IPv4 address, or the IPv6 network of one home."""
    return client_at(client_address(request))
