"""Serves the site below the path of `MUSTER_PUBLIC_URL`, if it has one: `/muster/runs/` for `/runs/`.

A proxy may remove the path before it passes a request on, or leave it: both arrive the same. Clients of OAuth ask at
the root of the host, with the path at the end (RFC 8414, RFC 9728): `/.well-known/oauth-authorization-server/muster`.
"""

from typing import Any

from django.conf import settings

from plumbing.site_paths import remove_site_prefix


class SitePrefix:
    """An ASGI application that gives Django the path with the prefix, and sockets the path without it."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self.prefix = settings.FORCE_SCRIPT_NAME or ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.prefix and scope["type"] in ("http", "websocket"):
            path = remove_site_prefix(scope["path"])
            if scope["type"] == "http":
                path = self.prefix + path
            scope = {**scope, "path": path}
        await self.application(scope, receive, send)
