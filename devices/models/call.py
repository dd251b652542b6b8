"""One tool call sent to a device. The row is authoritative; the socket only notifies."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from plumbing import clock

from .device import Device, PersonalQuerySet, new_id


class CallQuerySet(PersonalQuerySet):
    def open(self) -> "CallQuerySet":
        """Calls without an answer. An `unknown` one stays open until its deadline."""
        return self.filter(finished_at=None)

    def overdue(self, now: Any) -> "CallQuerySet":
        return self.open().filter(deadline__lte=now)


class DeviceCall(models.Model):
    class State(models.TextChoices):
        # Never sent: can be sent later or to another device.
        QUEUED = "queued"
        SENT = "sent"
        # In the device's journal.
        ACKED = "acked"
        DONE = "done"
        FAILED = "failed"
        # Not sent before its deadline.
        EXPIRED = "expired"
        CANCELLED = "cancelled"
        # Sent, but its outcome is not known.
        UNKNOWN = "unknown"

    HANDED_OVER = (State.SENT, State.ACKED, State.UNKNOWN)

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, null=True, blank=True, related_name="calls")
    run_id = models.UUIDField(null=True, blank=True, db_index=True)
    root_id = models.UUIDField(null=True, blank=True, db_index=True)
    tool = models.CharField(max_length=128, help_text="The tool's name on the device.")
    offer = models.CharField(
        max_length=64, blank=True, help_text="Hash of the approved offer, for a tool that the device offers."
    )
    arguments = models.JSONField(default=dict)
    run_context = models.JSONField(default=dict)
    state = models.CharField(max_length=9, choices=State.choices, default=State.QUEUED)
    attempt = models.PositiveIntegerField(default=1)
    timeout_s = models.FloatField(default=30.0)
    waits = models.BooleanField(default=False, help_text="Its time limit stands still while its device is away.")
    deadline = models.DateTimeField()
    result = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True)
    late = models.BooleanField(default=False, help_text="Answered after its deadline.")
    progress = models.JSONField(null=True, blank=True)
    is_awaited = models.BooleanField(default=False, help_text="Its run released its worker while it waits.")
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_reason = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=clock.near, editable=False)
    sent_at = models.DateTimeField(null=True, blank=True)
    acked_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = CallQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["deadline"], condition=Q(finished_at=None), name="device_call_open"),
            models.Index(fields=["device", "state"], condition=Q(finished_at=None), name="device_call_of_device"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["queued", "sent", "acked", "done", "failed", "expired", "cancelled", "unknown"]),
                name="device_call_state",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool} ({self.state})"

    @property
    def is_settled(self) -> bool:
        return self.finished_at is not None


class NoticeQuerySet(PersonalQuerySet):
    owner = "device__owner_id"


class Notice(models.Model):
    """A frame (run_complete) to deliver when the device reconnects."""

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="notices")
    text: Any = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    objects = NoticeQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"for {self.device}"
