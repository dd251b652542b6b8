"""A folder of a device that is searched with a collection. Its files stay on the device."""

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from plumbing.stored_rows import StoredRow

from .collection import Collection

PATH = 500


class FolderQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        """Only its owner's, also in a shared collection."""
        return self.filter(owner_id=user.pk)


class CollectionFolder(StoredRow):
    """`owner` owns the device; only their searches reach it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="folders")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    device_id = models.UUIDField(help_text="A device of the owner.")
    path = models.CharField(max_length=PATH, help_text="Begins with the name of a folder that the device shares.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = FolderQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["collection", "device_id", "path"], name="folder_once")]

    def __str__(self) -> str:
        return self.path
