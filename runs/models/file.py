"""Artifact: a file that a run made."""

from typing import Any, Self

from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from agents.models import StoredFile
from plumbing.statements import Select

from .call import ToolCallRecord
from .run import Run


class ArtifactQuerySet(models.QuerySet):
    def of_tree(self, run: Run) -> Self:
        """Those of a run; for the first run of a tree also those of all runs below it."""
        is_own = Q(run=run)
        is_below = Q(run__root=run)
        return self.filter(is_own | is_below)

    def shown(self, run: Run, user: Any) -> Self:
        """The same with their files, as far as they belong to this user."""
        artifacts = self.of_tree(run).filter(file__owner_id=user.pk)
        return artifacts.select_related("file")


class Artifact(models.Model):
    """The run refers to the file, which belongs to the run's person."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, db_index=False, on_delete=models.CASCADE, related_name="artifacts")
    call = models.ForeignKey(ToolCallRecord, on_delete=models.SET_NULL, null=True, blank=True, related_name="artifacts")
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="artifacts")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ArtifactQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["run", "id"])]
        constraints = [models.UniqueConstraint(fields=["run", "file"], name="artifact_once")]

    def __str__(self) -> str:
        return str(self.file)


SHOWN = Select(
    lambda at: Artifact.objects.filter(Q(run=at.run) | Q(run__root=at.run), file__owner_id=at.user).select_related(
        "file"
    ),
    run=models.UUIDField(),
    user=models.IntegerField(),
)
