"""What happened in a run, numbered and immutable. Large payloads are stored separately."""

from django.db import models
from uuid_utils.compat import uuid7

from .run import Run


class RunEvent(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, db_index=False, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=32)
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="event_seq_once")]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"


class EventPayload(models.Model):
    """The whole data of an event too large for its row."""

    event = models.OneToOneField(RunEvent, on_delete=models.CASCADE, primary_key=True, related_name="payload")
    data = models.JSONField()

    def __str__(self) -> str:
        return f"payload of {self.event_id}"
