"""The real address of a caller behind a proxy: `X-Forwarded-For` is read only where a trusted proxy sent it.

The connections of a proxy are those of many callers (supervisor/connections.py), so the requests and sockets
of each of its callers are counted here while they last.
"""

from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import JsonResponse

from plumbing.http.addresses import group_client_address, is_within

Network = IPv4Network | IPv6Network
TOO_MANY, TOO_MANY_CODE = 4429, "too_many_connections"  # what closes a socket


def networks(names: Sequence[str]) -> list[Network]:
    """Raises ImproperlyConfigured."""
    try:
        return [ip_network(name.strip(), strict=False) for name in names if name.strip()]
    except ValueError as error:
        raise ImproperlyConfigured(f"MUSTER_TRUSTED_PROXIES: {error}. Write addresses or networks: 10.0.0.0/8,::1.")


class RealAddress:
    """An ASGI application that puts the real client into the scope of requests and sockets."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self.trusted = networks(settings.TRUSTED_PROXIES)
        self.open: Counter[str] = Counter()  # requests and sockets of each client behind a proxy

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        peer = (scope.get("client") or ("",))[0]
        if not (self.trusted and self.is_trusted(peer)):
            await self.application(scope, receive, send)
            return
        address = self.client(peer, scope.get("headers", ()))
        scope = {**scope, "client": [address, 0]}
        if self.is_trusted(address):  # the proxy itself, such as its health checks
            await self.application(scope, receive, send)
        else:
            await self.serve_within_limit(group_client_address(address), scope, receive, send)

    async def serve_within_limit(self, client: str, scope: Any, receive: Any, send: Any) -> None:
        most = settings.MAX_CONNECTIONS_PER_ADDRESS
        if 0 < most <= self.open[client]:
            await refuse(scope, receive, send)
            return
        self.open[client] += 1
        try:
            await self.application(scope, receive, send)
        finally:
            self.open[client] -= 1
            if not self.open[client]:
                del self.open[client]

    def client(self, peer: str, headers: Any) -> str:
        """The nearest address in X-Forwarded-For that is no trusted proxy; a client may write what stands before it."""
        value = ",".join(value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for")
        for address in reversed([part.strip() for part in value.split(",")]):
            if not is_address(address):
                break
            peer = address
            if not self.is_trusted(address):
                break
        return peer

    def is_trusted(self, address: str) -> bool:
        return is_within(address, self.trusted)


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})  # a refused handshake would look like a revoked credential
        await send({"type": "websocket.close", "code": TOO_MANY, "reason": TOO_MANY_CODE})
        return
    error = {
        "code": TOO_MANY_CODE,
        "message": "This address has too many open connections.",
        "hint": "Close some, or send one request after the other.",
        "details": [],
    }
    answer = JsonResponse({"error": error}, status=503, headers={"Retry-After": "5"})
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.items()]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
