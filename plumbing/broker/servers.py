"""Addresses of Redis and Valkey servers, read in one place: a single server, one that Sentinels
watch over, or a cluster.

- `redis://`, `rediss://` and `unix://` as redis-py writes them;
- `sentinel://user:password@host1:26379,host2:26379/service?db=0`: each new connection asks the
  Sentinels for the master, so commands go to the new one after a failover;
- `cluster://user:password@host1:6379,host2:6379`, and `clusters://` over TLS (`plumbing/broker/clusters.py`).
"""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.sentinel import Sentinel, SentinelConnectionPool

from plumbing.broker import clusters

SENTINEL = "sentinel"
SENTINEL_PORT = 26379


class Servers:
    """What Django's cache takes for a connection pool (`pool_class`)."""

    @staticmethod
    def from_url(url: str, **options: Any) -> redis.ConnectionPool:
        return make_pool(url, **options)


def make_pool(url: str, **options: Any) -> redis.ConnectionPool:
    """Makes connections to the server of this address. Raises ValueError."""
    if scheme(url) in clusters.KINDS:
        return clusters.make_pool(url, **options)
    if scheme(url) != SENTINEL:
        return redis.ConnectionPool.from_url(url, **options)
    hosts, service, login = read_sentinel(url)
    limits = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout") if options.get(name)}
    if not limits:
        limits = {"socket_timeout": 2}
    watchers = Sentinel(hosts, sentinel_kwargs=limits)
    return SentinelConnectionPool(service, watchers, **login, **options)


def is_clustered(url: str) -> bool:
    """Whether a single server is named that belongs to a Redis Cluster; False if it does not answer within two
    seconds.
    """
    if scheme(url) in clusters.KINDS:
        return False
    pool = make_pool(url, socket_timeout=2, socket_connect_timeout=2)
    try:
        info: Any = redis.Redis(connection_pool=pool).info("cluster")
        return bool(info.get("cluster_enabled"))
    except (redis.RedisError, OSError):
        return False
    finally:
        pool.disconnect()


def scheme(url: str) -> str:
    return url.partition("://")[0]


def read_sentinel(url: str) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
    """(the Sentinels, the service, database and login of the server). Raises ValueError."""
    parts = urlsplit(url)
    user, _, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    service = parts.path.strip("/")
    sentinels: list[tuple[str, int]] = []
    for entry in hosts.split(","):
        host, _, port = entry.partition(":")
        sentinels.append((host, int(port or SENTINEL_PORT)))
    if not service or not all(host for host, _ in sentinels):
        raise ValueError("write sentinel://host1:26379,host2:26379/service")
    query = parse_qs(parts.query)
    login: dict[str, Any] = {"db": int(query.get("db", ["0"])[0])}
    if name:
        login["username"] = unquote(name)
    if password:
        login["password"] = unquote(password)
    return sentinels, service, login
