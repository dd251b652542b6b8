"""Files of people: one row for each file, wherever it is used. The content is in the storage `files`."""

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef
from django.utils import timezone
from uuid_utils.compat import uuid7

from plumbing.stored_rows import StoredRow

# May be shown inside a page.
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class StoredFileQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(owner_id=user.pk)

    def unreferenced(self) -> Self:
        """Files that no row refers to: every relation to this table counts."""
        rows = self
        for relation in self.model._meta.related_objects:
            users = relation.related_model._default_manager
            rows = rows.exclude(Exists(users.filter(**{relation.field.name: OuterRef("pk")})))
        return rows


class StoredFile(StoredRow):
    """A file belongs to one person. Messages, runs and others refer to it by id, never by a server path.

    Files of one person with equal content share the same stored bytes.
    """

    class Source(models.TextChoices):
        UPLOAD = "upload", "uploaded by its owner"
        RUN = "run", "made by a run"
        SKILL = "skill", "files of a skill"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=200)
    media_type = models.CharField(max_length=100, default="text/plain", help_text="Determined from the content.")
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    sha256 = models.CharField(max_length=64)
    stored = models.CharField(max_length=200, editable=False, help_text="Its name in the storage.")
    source = models.CharField(max_length=6, choices=Source.choices, default=Source.UPLOAD)
    untrusted = models.BooleanField(default=True, help_text="It may contain text written by others.")
    created_at = models.DateTimeField(default=timezone.now)

    objects = StoredFileQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name = "file"
        indexes = [
            models.Index(fields=["owner", "-id"]),
            models.Index(fields=["owner", "sha256"]),
            models.Index(fields=["stored"]),
            models.Index(fields=["created_at"]),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_image(self) -> bool:
        return self.media_type in IMAGES
