"""Tasks, notes, projects and timelines of users without a device."""

from django.conf import settings
from django.db import models

from devices.client.records import KINDS

from .device import PersonalQuerySet, new_id


class Record(models.Model):
    """One record; `data` holds the fields of its kind. See devices/client/records.py."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="records")
    kind = models.CharField(max_length=8, choices=[(kind, kind) for kind in KINDS])
    data = models.JSONField(default=dict)
    is_ai_suggested = models.BooleanField(default=True)
    is_approved = models.BooleanField(default=False)
    made_by = models.UUIDField(null=True, blank=True, editable=False, help_text="The tool call that created it.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = PersonalQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at", "-id"]
        indexes = [models.Index(fields=["owner", "kind", "-updated_at"], name="record_of_kind")]

    def __str__(self) -> str:
        return str(self.data.get("title") or self.data.get("name") or self.data.get("text") or self.kind)[:80]
