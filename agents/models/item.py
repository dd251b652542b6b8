"""A JSON document that a person's programs keep, found by its namespace and key."""

import json
from typing import Any, Self

from django.conf import settings
from django.db import models

from plumbing.stored_rows import StoredRow


class StoredItemQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(owner_id=user.pk)


class StoredItem(StoredRow):
    """It belongs to one person; agents do not read it. The labels of `namespace` are joined by dots."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    namespace = models.CharField(max_length=500)
    key = models.CharField(max_length=200)
    value = models.JSONField(default=dict)
    size = models.PositiveIntegerField(default=0, help_text="Bytes of the value as JSON.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = StoredItemQuerySet.as_manager()

    class Meta:
        ordering = ["namespace", "key"]
        verbose_name = "item"
        constraints = [models.UniqueConstraint(fields=["owner", "namespace", "key"], name="item_once")]

    def __str__(self) -> str:
        return f"{self.namespace}: {self.key}"

    @staticmethod
    def size_of(value: Any) -> int:
        return len(json.dumps(value).encode())
