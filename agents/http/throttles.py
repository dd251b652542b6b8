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
from plumbing.broker.broadcast import name_channel
from plumbing.broker.line import Line
from plumbing.http.addresses import group_client_address

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
        """Count the request; False if it exceeds a limit.

        The limit with the fewest requests left is stored in the request, for the headers that
        `config.middleware.rate_headers` adds.
        """
        counts = count_request(request.user, request.auth, client_address(request))
        if counts:
            count, limit = min(counts, key=lambda pair: pair[1] - pair[0])
            requests_left = max(0, limit - count)
            seconds = int(until_next()) + 1
            request._request.rate = (limit, requests_left, seconds)
        return all(count <= limit for count, limit in counts)

    def wait(self) -> float:
        return until_next()


def admit_request(user: Any, key: Any, address: str) -> bool:
    """Count one request or one frame of a socket; False if it exceeds the limit. A limit of 0 means
    no limit.
    """
    return all(count <= limit for count, limit in count_request(user, key, address))


def count_request(user: Any, key: Any, address: str) -> list[tuple[int, int]]:
    """Count one request. Returns (requests in this window, limit) for each limit that applies."""
    limits: dict[str, int] = {}
    if user.pk:
        caller = f"k{key.pk}" if isinstance(key, ApiKey) else f"u{user.pk}"
        limits[caller] = settings.RATE_PER_KEY
    limits[f"a{group_client_address(address)}"] = settings.RATE_PER_ADDRESS
    # A limit of 0 means no limit, and needs no count.
    names = [name for name, limit in limits.items() if limit > 0]
    if not names:
        return []
    counts = count_in_windows(names)
    return [(count, limits[name]) for count, name in zip(counts, names, strict=True)]


def until_next() -> float:
    """Seconds until the next window."""
    return WINDOW_S - time() % WINDOW_S


def count_in_windows(names: list[str]) -> list[int]:
    """Count each of these names once; returns how often each was counted in this minute, 0 while the cache is down."""
    window = int(time() // WINDOW_S)
    commands: list[tuple[Any, ...]] = []
    for name in names:
        key = name_channel("rate", name, window)
        commands.append(("INCR", key))
        commands.append(("EXPIRE", key, 2 * WINDOW_S))
    try:
        answers = cache_connection().ask(*commands)
    except redis.RedisError:
        return [0] * len(names)
    # The answers of INCR and EXPIRE alternate; those of INCR are the counts.
    return answers[::2]


def client_address(request: Any) -> str:
    """The address the server saw; a trusted proxy's X-Forwarded-For is applied by the server before us."""
    return request.META.get("REMOTE_ADDR", "")


def find_client(request: Any) -> str:
    """Whose requests are counted together: an IPv4 address, or the IPv6 network of one home."""
    return group_client_address(client_address(request))
