"""Redis Cluster: all of Muster's keys are in one slot, so one server of the cluster has them (docs/adr/0113).

Each new connection asks which server that is: after a failover, or when the slot has moved, commands go to the new one.
"""

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis
from redis.connection import parse_url
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, TryAgainError

CLUSTER, OVER_TLS = "cluster", "clusters"
KINDS = (CLUSTER, OVER_TLS)
# The prefix of every key; a cluster computes the slot of the part in braces.
TAG = "{muster}"
SLOT = key_slot(TAG.encode())
PORT = 6379
# AskError includes MOVED.
NOT_HERE = (AskError, ClusterDownError, TryAgainError, redis.ReadOnlyError)

Address = tuple[str, int]


def make_pool(url: str, **options: Any) -> redis.ConnectionPool:
    """Makes connections to the server that has Muster's keys. Raises ValueError."""
    servers, login = read_cluster(url)
    is_over_tls = url.startswith(f"{OVER_TLS}://")
    kind = TlsConnection if is_over_tls else Connection
    return redis.ConnectionPool(connection_class=kind, servers=servers, **{**login, **options})


def read_cluster(url: str) -> tuple[list[Address], dict[str, Any]]:
    """(some servers of the cluster, login and other options as redis-py reads them). Raises ValueError."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    servers: list[Address] = []
    for entry in hosts.split(","):
        host, _, port = entry.partition(":")
        servers.append((host, int(port or PORT)))
    first_host = servers[0][0]
    if not all(host for host, _ in servers) or parts.path not in ("", "/", "/0"):
        raise ValueError(f"write {CLUSTER}://host1:6379,host2:6379; a cluster has one database")
    # redis-py reads the rest as of an address with one server.
    options = parse_url(urlunsplit(("redis", f"{user}{at}{first_host}", "", parts.query, "")))
    login = {name: value for name, value in options.items() if name not in ("host", "port", "db")}
    return servers, login


class Connection(redis.Connection):
    """To the server that has Muster's slot at the moment of connecting."""

    def __init__(self, *, servers: list[Address], **options: Any) -> None:
        super().__init__(**options)
        self.servers = servers

    def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        if self._sock:
            return
        how = (check_health, retry_socket_connect)
        problem = ""
        for server in self.servers:
            try:
                self.connect_to(server, *how)
                owner = self.owner()
                if owner != server:
                    self.disconnect()
                    self.connect_to(owner, *how)
                return
            except (redis.RedisError, OSError) as error:
                problem = str(error)
                self.disconnect()
        raise redis.ConnectionError(f"No server of the cluster can be used: {problem}")

    def connect_to(self, server: Address, *how: bool) -> None:
        self.host, self.port = server
        super().connect_check_health(*how)

    def owner(self) -> Address:
        """The server that has the slot, by what the connected one knows."""
        self.send_command("CLUSTER", "SLOTS")
        for first, last, (host, port, *_more), *_replicas in super().read_response():
            if first <= SLOT <= last:
                return decode_host(host) or self.host, port
        raise redis.ConnectionError(f"no server has the slot {SLOT}")

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        """A server that has the slot no longer counts as gone."""
        try:
            return super().read_response(*arguments, **options)
        except NOT_HERE as error:
            self.disconnect()
            raise redis.ConnectionError(f"Another server has the keys: {error}") from error


class TlsConnection(Connection, redis.SSLConnection):
    """The same over TLS."""


def decode_host(host: str | bytes | None) -> str:
    """Empty if the server does not know its own address."""
    if isinstance(host, bytes):
        return host.decode()
    return host or ""
