"""Installed starter definitions with their original content: an author's edits are never
overwritten.
"""

from django.db import models


class Starter(models.Model):
    kind = models.CharField(max_length=20)
    name = models.CharField(max_length=64)
    file_sha256 = models.CharField(max_length=64)
    row_sha256 = models.CharField(max_length=64)
    installed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="starter_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
