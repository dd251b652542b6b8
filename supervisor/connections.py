"""A limit of open connections for each client address: nobody takes all that one web server can hold.

Counted where Twisted makes and loses the connection itself, so that a WebSocket, which leaves its
HTTP channel, counts as long as it is open. Proxies in MUSTER_TRUSTED_PROXIES are not limited: their
connections are those of many clients, whose requests config/proxies.py counts.
"""

from collections import Counter
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Protocol
from twisted.web.http_headers import Headers

from plumbing.http.addresses import group_client_address, is_within

from .body_limits import render_error_response
from .reads import RestingServer

TOO_MANY = (
    "503 Service Unavailable",
    "too_many_connections",
    "This address has too many open connections.",
    "Close some, or let several requests share one. Behind a proxy, set MUSTER_TRUSTED_PROXIES to its address.",
)
ANSWERED_S = 1.0  # how long a refused client may take to read the answer
MOST_REFUSED = 64  # of one address at a time; further ones are closed without an answer


class Connections:
    """How many connections each address has open."""

    def __init__(self, limit: int, proxies: list[str]) -> None:
        self.limit = limit
        names = [name.strip() for name in proxies]
        self.proxies = [ip_network(name, strict=False) for name in names if name]
        self.open: Counter[str] = Counter()

    def add(self, client: str) -> None:
        self.open[client] += 1

    def remove(self, client: str) -> None:
        self.open[client] -= 1
        if self.open[client] <= 0:
            del self.open[client]

    def excess(self, host: str) -> int:
        """By how many connections this address would be above its limit with one more."""
        if self.limit <= 0 or self.is_proxy(host):
            return 0
        return max(0, self.open[group_client_address(host)] + 1 - self.limit)

    def is_proxy(self, host: str) -> bool:
        return is_within(host, self.proxies)


def limit_connections(factory: Any, port: Any) -> Connections:
    """Let this listening port obey `MUSTER_MAX_CONNECTIONS_PER_ADDRESS`."""
    connections = Connections(settings.MAX_CONNECTIONS_PER_ADDRESS, settings.TRUSTED_PROXIES)
    build = factory.buildProtocol

    def build_within_limit(address: IAddress | None) -> Any:
        excess = connections.excess(getattr(address, "host", ""))
        if excess == 0:
            return build(address)
        if excess > MOST_REFUSED:
            return None
        return Refused(factory.reactor.callLater)

    factory.buildProtocol = build_within_limit
    port.transport = make_counted_transport(connections)
    return connections


def make_counted_transport(connections: Connections) -> type[RestingServer]:
    """The transport of accepted connections, which counts itself while it is open."""

    class CountedTransport(RestingServer):
        def __init__(self, sock: Any, protocol: Any, client: Any, *more: Any) -> None:
            super().__init__(sock, protocol, client, *more)
            self.counted_as = group_client_address(client[0])
            connections.add(self.counted_as)

        def connectionLost(self, reason: Any) -> None:  # noqa: N802  (Twisted's names)
            try:
                super().connectionLost(reason)
            finally:
                connections.remove(self.counted_as)

    return CountedTransport


class Refused(Protocol):
    """Says why, whatever is asked. It closes after the client has begun to send: a connection that is closed with
    unread data in it is reset, and the answer lost.
    """

    def __init__(self, call_later: Callable[..., Any]) -> None:
        self.call_later = call_later

    def connectionMade(self) -> None:  # noqa: N802
        self.requestHeaders = Headers()
        self.transport.write(render_error_response(self, *TOO_MANY))  # type: ignore[union-attr,call-arg]
        self.timer = self.call_later(ANSWERED_S, self.transport.abortConnection)  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        self.transport.loseConnection()  # type: ignore[union-attr]

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        if self.timer.active():
            self.timer.cancel()
