"""The real address of a caller behind a proxy: `X-Forwarded-For` is read only where a trusted proxy sent it."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

Network = IPv4Network | IPv6Network


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

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        peer = (scope.get("client") or ("",))[0]
        if self.trusted and self.is_trusted(peer):
            scope = {**scope, "client": [self.client(peer, scope.get("headers", ())), 0]}
        await self.application(scope, receive, send)

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
        return is_address(address) and any(ip_address(address) in network for network in self.trusted)


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
