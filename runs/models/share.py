"""A conversation that others may read by a link."""

import secrets
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.utils.crypto import constant_time_compare, salted_hmac

from plumbing.stored_rows import StoredRow

from .session import Session

# Keeps these signatures apart from others that `SECRET_KEY` makes.
SALT = "muster.shared"
# Characters.
HANDLE = 22


def new_handle() -> str:
    return secrets.token_urlsafe(16)


class SharedLinkQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(session__owner_id=user.pk)

    def readable(self) -> Self:
        """Those that a stranger can open now."""
        if not settings.SHARED_LINKS:
            return self.none()
        return self.filter(session__owner__is_active=True)

    def opened_by(self, token: str) -> Any:
        """The link with this token, if a stranger can open it now."""
        link: Any = self.readable().select_related("session").filter(handle=token[:HANDLE]).first()
        # The handle alone opens nothing: somebody may have it from a copy of the database.
        if link is None or not constant_time_compare(link.token, token):
            return None
        return link


class SharedLink(StoredRow):
    """Shows the messages up to `last_seq` to everybody who has the link. Later messages are not shown.

    The database has only the first half of the token. The other half is its signature with
    `SECRET_KEY`, so that a copy of the database opens no conversation.
    """

    session = models.OneToOneField(Session, on_delete=models.CASCADE, primary_key=True, related_name="shared_link")
    handle = models.CharField(max_length=HANDLE, unique=True, default=new_handle, editable=False)
    last_seq = models.PositiveIntegerField()
    shows_tools = models.BooleanField(default=False, help_text="Also the names and arguments of tool calls.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = SharedLinkQuerySet.as_manager()

    def __str__(self) -> str:
        return f"link to {self.session}"

    @property
    def token(self) -> str:
        signature = salted_hmac(SALT, self.handle, algorithm="sha256").hexdigest()
        return self.handle + signature

    @property
    def owner_id(self) -> Any:
        return self.session.owner_id
