"""Checks which origins may open a WebSocket."""

from typing import Any

from channels.security.websocket import OriginValidator
from django.conf import settings


class SentOriginValidator(OriginValidator):
    """A browser always sends its Origin, and it must be one of ours; a program sends none and shows a key instead."""

    def valid_origin(self, parsed_origin: Any) -> bool:
        return parsed_origin is None or self.validate_origin(parsed_origin)


def checked(application: Any) -> SentOriginValidator:
    hosts = settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])
    return SentOriginValidator(application, hosts)
