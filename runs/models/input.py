"""An answer that a run waits for: from the person, or from the program that sent the message."""

from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from plumbing import clock
from plumbing.stored_rows import StoredRow

from .call import ToolCallRecord
from .run import Run


class InputRequestQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(run__principal_id=user.pk)

    def open(self) -> Self:
        return self.filter(status=InputRequest.Status.OPEN)


class InputRequest(StoredRow):
    """A question to the person (`form`), or a tool call that the caller executes (`tool`). It is
    answered once.
    """

    class Kind(models.TextChoices):
        FORM = "form", "a question to the person"
        TOOL = "tool", "a tool that the caller executes"

    class Status(models.TextChoices):
        OPEN = "open"
        ANSWERED = "answered"
        DECLINED = "declined"
        EXPIRED = "expired"
        VOID = "void", "its run ended first"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, db_index=False, on_delete=models.CASCADE, related_name="inputs")
    call = models.ForeignKey(ToolCallRecord, db_index=False, on_delete=models.CASCADE, related_name="input_requests")
    key = models.CharField(max_length=200, blank=True, help_text="Which of the call's questions it is.")
    kind = models.CharField(max_length=4, choices=Kind.choices)
    name = models.CharField(max_length=64, help_text="The name of the tool.")
    prompt = models.TextField(blank=True, help_text="The question to the person.")
    schema = models.JSONField(null=True, blank=True, help_text="JSON Schema of the answer; null: any JSON.")
    arguments = models.JSONField(default=dict, blank=True, help_text="Arguments of the call, for a tool.")
    is_trusted = models.BooleanField(default=False, help_text="The answer is the person's own text.")
    state = models.JSONField(
        null=True, blank=True, help_text="What the tool needs to go on once it is answered. It is never shown."
    )
    expires_at = models.DateTimeField()
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.OPEN)
    value = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True, help_text='{"code", "message"}, where the answer is a failure.')
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    answered_at = models.DateTimeField(null=True, blank=True)
    noticed_at = models.DateTimeField(null=True, editable=False, help_text="When its notices were made.")
    created_at = models.DateTimeField(default=clock.near, editable=False)

    objects = InputRequestQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["run", "status"]),
            # What a person was not notified of yet: hardly any rows.
            models.Index(
                fields=["created_at"], condition=Q(status="open", kind="form", noticed_at=None), name="input_unnoticed"
            ),
        ]
        constraints = [
            # After a crash, a call that goes on finds the question that it asked.
            models.UniqueConstraint(fields=["call", "key"], name="input_asked_once"),
            models.CheckConstraint(
                condition=Q(status__in=["open", "answered", "declined", "expired", "void"]), name="input_status_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.status}"
