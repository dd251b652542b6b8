"""A conversation that others may read by a link."""

import secrets
from typing import Any, Self

from django.conf import settings
from django.db import models

from .session import Session


def new_token() -> str:
    return secrets.token_urlsafe(32)


class SharedLinkQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(session__owner_id=user.pk)

    def readable(self) -> Self:
        """Those that a stranger can open now."""
        return self.filter(session__owner__is_active=True) if settings.SHARED_LINKS else self.none()


class SharedLink(models.Model):
    """Shows the messages up to `last_seq` to everybody who has the link. Later messages are not shown."""

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="shared_link")
    token = models.CharField(max_length=43, unique=True, default=new_token, editable=False)
    last_seq = models.PositiveIntegerField()
    shows_tools = models.BooleanField(default=False, help_text="Also the names and arguments of tool calls.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = SharedLinkQuerySet.as_manager()

    def __str__(self) -> str:
        return f"link to {self.session}"

    @property
    def owner_id(self) -> Any:
        return self.session.owner_id
