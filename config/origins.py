"""Checks which origins may open a WebSocket."""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host

PORTS = {"http": 80, "https": 443}
Place = tuple[str, str, int | None]


class SentOriginValidator:
    """A browser always sends its Origin, and it must be one of ours; a program sends none and shows a key instead.

    One of ours is the page's own scheme, host and port: another port of this machine is somebody else's server.
    """

    def __init__(self, application: Any, hosts: list[str]) -> None:
        self.application = application
        self.hosts = hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        host = headers.get(b"host", b"").decode("latin-1")
        is_ours = origin is None or self.is_ours(origin.decode("latin-1"), host)
        return await (self.application if is_ours else WebsocketDenier())(scope, receive, send)

    def is_ours(self, origin: str, host: str) -> bool:
        """The host that the browser asked for, or one of those that settings name with their scheme."""
        place = read_origin(origin)
        if place is None:
            return False
        scheme, name, port = place
        if read_origin(f"{scheme}://{host}") == place and validate_host(name, self.hosts):
            return True
        return place in [read_origin(url) for url in (settings.PUBLIC_URL, *settings.CSRF_TRUSTED_ORIGINS)]


def read_origin(url: str) -> Place | None:
    """(scheme, host, port) of an origin, None for what is not one."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.scheme in PORTS and parts.hostname else None


def check_origins(application: Any) -> SentOriginValidator:
    hosts = settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])
    return SentOriginValidator(application, hosts)
