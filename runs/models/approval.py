"""A person's yes, no or edit to one tool call."""

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from .call import StepRun, ToolCallRecord
from .run import Run


class ApprovalQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(run__principal_id=user.pk)

    def open(self) -> Self:
        return self.filter(status=Approval.Status.OPEN)


class Approval(models.Model):
    class Status(models.TextChoices):
        OPEN = "open"
        APPROVED = "approved"
        DENIED = "denied"
        EXPIRED = "expired"
        VOID = "void", "its call died first"

    class Default(models.TextChoices):
        DENY = "deny"
        APPROVE = "approve"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="approvals")
    call = models.OneToOneField(
        ToolCallRecord, on_delete=models.CASCADE, null=True, blank=True, related_name="approval"
    )
    step = models.OneToOneField(
        StepRun, on_delete=models.CASCADE, null=True, blank=True, related_name="approval_before"
    )
    tool = models.CharField(max_length=64)
    reason = models.CharField(max_length=200, blank=True)
    arguments = models.JSONField(default=dict)
    edited_arguments = models.JSONField(null=True, blank=True)
    expires_at = models.DateTimeField()
    default = models.CharField(max_length=7, choices=Default.choices, default=Default.DENY)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.OPEN)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["expires_at"], condition=Q(status="open"), name="approval_open")]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["open", "approved", "denied", "expired", "void"]), name="approval_status_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}: {self.status}"
