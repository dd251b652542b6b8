"""A browser that is signed in: Django's session, with whose it is and when it was last used."""

from hashlib import sha256
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class BrowserSession(AbstractBaseSession):
    """`session_key` is what the browser's cookie contains, so it is never shown; `handle` names the row."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    browser = models.CharField(max_length=100, blank=True)
    address = models.CharField(max_length=64, blank=True)
    signed_in_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.browser or "browser"

    @property
    def handle(self) -> str:
        return sha256(self.session_key.encode()).hexdigest()[:32]

    @classmethod
    def get_session_store_class(cls) -> Any:
        return SessionStore
