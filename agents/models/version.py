"""The pattern of everything that is published: a working row, immutable versions, and a pointer to
the live one.
"""

from typing import Any

from django.conf import settings
from django.db import models

from agents.exceptions import NewerFormat
from agents.spec import FORMAT


class Version(models.Model):
    """An immutable version. Subclasses name their parent; (parent, number) and (parent, sha256) are
    unique.
    """

    number = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    note = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    format = models.PositiveSmallIntegerField(default=FORMAT, editable=False)

    class Meta:
        abstract = True
        ordering = ["-number"]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk and not self._state.adding:
            raise TypeError("A version cannot be changed; publish a new one.")
        super().save(*args, **kwargs)

    def require_known_format(self) -> None:
        """Raises NewerFormat if a newer Muster wrote it: this one would ignore what it does not know."""
        if self.format > FORMAT:
            error = NewerFormat(
                f"“{self}” was published by a newer Muster (format {self.format}, this one reads {FORMAT}).",
                hint="Update this process, or publish the definition again from here.",
            )
            error.format = self.format
            raise error
