"""What a run did: steps, model calls, tool calls. A call is recorded before it is made."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from .run import Run


class StepRun(models.Model):
    """One step (or one of its items) of a chain run; a plain message is one implied step without a
    row.
    """

    class Status(models.TextChoices):
        READY = "ready"
        RUNNING = "running"
        WAITING = "waiting"
        SUCCEEDED = "succeeded"
        PARTIAL = "partial"
        FAILED = "failed"
        SKIPPED = "skipped"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, db_index=False, on_delete=models.CASCADE, related_name="steps")
    key = models.CharField(max_length=64)
    item = models.IntegerField(default=-1, help_text="Index of the for_each item; -1: the step itself.")
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.READY)
    child = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="as_step")
    call = models.ForeignKey("ToolCallRecord", on_delete=models.SET_NULL, null=True, blank=True, related_name="as_step")
    total = models.PositiveIntegerField(default=0, help_text="Items of a for_each.")
    done = models.PositiveIntegerField(default=0, help_text="Items that have ended.")
    failed = models.PositiveIntegerField(default=0, help_text="Items that have failed.")
    pinned = models.BooleanField(
        default=False, help_text="In a try of a draft: its output was given, and the step did not run."
    )
    attempt = models.PositiveIntegerField(default=0)
    repeat = models.PositiveIntegerField(default=0)
    lease_owner = models.CharField(max_length=64, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    wake_at = models.DateTimeField(null=True, blank=True)
    input = models.JSONField(null=True, blank=True)
    output = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # While it waits for workers (runs/queue/fair_queue.py): as on the run.
    principal = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+", editable=False,
        db_index=False, db_constraint=False,
    )  # fmt: skip
    pool = models.CharField(max_length=32, default="default", editable=False)
    priority = models.PositiveSmallIntegerField(default=0, editable=False)
    place = models.BigIntegerField(null=True, blank=True, editable=False)
    slots = models.PositiveIntegerField(default=0, editable=False, help_text="Workers that it waits for.")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["run", "key", "item"], name="step_run_once")]
        indexes = [
            models.Index(fields=["run", "status"]),
            models.Index(fields=["run", "key", "status", "item"]),
            # Of the steps that wait for workers alone: few rows, in the order in which they are taken.
            models.Index(
                fields=["pool", "priority", "place", "id"], condition=models.Q(place__isnull=False), name="step_choice"
            ),
            models.Index(
                fields=["principal", "pool", "priority", "place"], condition=models.Q(place__isnull=False),
                name="step_share",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        if self.item < 0:
            return f"{self.key} {self.status}"
        return f"{self.key}[{self.item}] {self.status}"


class ModelCall(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="model_calls")
    turn = models.PositiveIntegerField()
    provider = models.CharField(max_length=64)
    model_name = models.CharField(max_length=100, blank=True)
    started_at = models.DateTimeField()
    first_token_ms = models.FloatField(null=True)
    wall_ms = models.FloatField(default=0)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=8, default=0)
    attempts = models.PositiveSmallIntegerField(default=1)
    # What was sent to the model and what it answered, word for word. `request` is deleted before the rest of the row.
    request = models.JSONField(null=True, blank=True)
    response = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        permissions = [("read_raw", "Can read raw requests and responses of the model")]

    def __str__(self) -> str:
        return f"{self.provider}/{self.model_name} turn {self.turn}"


class ToolCallRecord(models.Model):
    class Outcome(models.TextChoices):
        PENDING = "", "not answered yet"
        OK = "ok"
        FAILED = "failed"
        DENIED = "denied"
        UNKNOWN = "unknown", "outcome unknown"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, db_index=False, on_delete=models.CASCADE, related_name="tool_calls")
    parent_call = models.ForeignKey(
        "self", db_index=False, on_delete=models.CASCADE, null=True, blank=True, related_name="callbacks"
    )
    turn = models.PositiveIntegerField(default=0)
    model_call_id = models.CharField(max_length=128, blank=True, help_text="The id that the model gave its call.")
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=12, blank=True)
    effect = models.CharField(max_length=12, blank=True)
    arguments = models.JSONField(default=dict)
    attempt = models.PositiveIntegerField(default=0, help_text="0: recorded but not started.")
    outcome = models.CharField(max_length=7, choices=Outcome.choices, default=Outcome.PENDING, blank=True)
    waiting_for = models.CharField(max_length=8, blank=True)
    result = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True)
    printed = models.TextField(blank=True)
    untrusted = models.BooleanField(default=False)
    details = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    wall_ms = models.FloatField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["run", "id"]),
            # Of the calls that functions make while they run: most calls need no entry.
            models.Index(fields=["parent_call"], condition=Q(parent_call__isnull=False), name="call_below"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(outcome__in=["", "ok", "failed", "denied", "unknown"]), name="call_outcome_known"
            )
        ]

    def __str__(self) -> str:
        outcome = self.outcome or "pending"
        return f"{self.name} {outcome}"
