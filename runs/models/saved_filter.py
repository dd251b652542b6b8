"""A person's own name for the filters of a list, such as “expensive failures of this week”."""

from typing import Any, Self

from django.conf import settings
from django.db import models

from plumbing.stored_rows import StoredRow


class SavedFilterQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(owner_id=user.pk)


class SavedFilter(StoredRow):
    # Of one person.
    MOST = 30

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, db_index=False, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=64)
    query = models.CharField(max_length=1000, blank=True, help_text="As in the address of the list of runs.")

    objects = SavedFilterQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="saved_filter_once")]

    def __str__(self) -> str:
        return self.name
