"""Tasks, notes, projects and timelines that are kept on the server, and the history of each."""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from devices.client.folding import fold_text
from devices.client.records import collect_record_texts
from plumbing.stored_rows import StoredRow

from .device import PersonalQuerySet, new_id

# Stands around each name in `people`.
EDGE = "\n"


class RecordQuerySet(PersonalQuerySet):
    def waiting(self) -> Self:
        """What its owner has to decide: suggestions, and approved records with a suggested change."""
        suggestion = Q(review=Record.Review.SUGGESTED)
        change = Q(suggested__isnull=False)
        return self.filter(suggestion | change)

    def containing(self, text: str) -> Self:
        """Records with all these words somewhere in their texts, in any order, case and spelling."""
        rows = self
        words = fold_text(text.replace("\0", " ")).split()
        for word in words[:8]:
            rows = rows.filter(words__contains=word)
        return rows

    def assigned_to(self, name: str) -> Self:
        # The edges keep “Ann” from finding “Anna”.
        whole_name = f"{EDGE}{fold_name(name)}{EDGE}"
        return self.filter(people__contains=whole_name)


class Record(StoredRow):
    """One record; `data` holds the fields of its kind. See devices/client/records.py.

    `suggested` holds the fields that an agent wants to change in an approved record. `version`
    counts the changes.
    """

    class Review(models.TextChoices):
        SUGGESTED = "suggested"
        APPROVED = "approved"
        REJECTED = "rejected"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="records")
    kind = models.CharField(max_length=64)
    about = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="comments", help_text="Of a comment."
    )
    data = models.JSONField(default=dict)
    suggested = models.JSONField(null=True, blank=True, editable=False)
    is_ai_suggested = models.BooleanField(default=True)
    review = models.CharField(max_length=16, choices=Review.choices, default=Review.SUGGESTED)
    reason = models.CharField(max_length=500, blank=True, help_text="Why it was rejected.")
    version = models.PositiveIntegerField(default=1, editable=False)
    words = models.TextField(blank=True, editable=False, help_text="Its texts in lower case, for the search.")
    people = models.TextField(blank=True, editable=False, help_text="Its assignees in lower case, one a line.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = RecordQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at", "-id"]
        indexes = [
            models.Index(fields=["owner", "kind", "-updated_at"], name="record_of_kind"),
            models.Index(fields=["owner", "review", "-updated_at"], name="record_of_review"),
        ]

    def __str__(self) -> str:
        data = self.data
        title = data.get("title") or data.get("name") or data.get("text") or self.kind
        return str(title)[:80]

    @property
    def is_untrusted(self) -> bool:
        suggested = self.suggested or {}
        return bool(self.data.get("untrusted") or suggested.get("untrusted"))

    @property
    def is_waiting(self) -> bool:
        return self.review == self.Review.SUGGESTED or self.suggested is not None

    def index(self) -> None:
        """Set what the search and the filter by assignee read."""
        text = "\n".join(collect_record_texts(self.data))
        # PostgreSQL refuses NUL in a text.
        self.words = fold_text(text).replace("\0", "")
        self.people = ""
        names = [fold_name(name) for name in self.data.get("assignees") or []]
        if names:
            self.people = EDGE + EDGE.join(names) + EDGE


def fold_name(name: str) -> str:
    return fold_text(name.replace("\0", "").strip())


class RecordChange(models.Model):
    """One entry of a record's history. `fields` is {name: [before, after]}."""

    class Action(models.TextChoices):
        CREATED = "created"
        CHANGED = "changed"
        SUGGESTED = "suggested", "suggested a change"
        APPROVED = "approved"
        REJECTED = "rejected"

    record = models.ForeignKey(Record, on_delete=models.CASCADE, related_name="changes")
    at = models.DateTimeField(auto_now_add=True)
    action = models.CharField(max_length=16, choices=Action.choices)
    version = models.PositiveIntegerField(help_text="Of the record after this.")
    author = models.CharField(max_length=150, blank=True, help_text="The name of the person or of the agent.")
    is_agent = models.BooleanField(default=False)
    run_id = models.UUIDField(null=True, blank=True, help_text="The run that made it.", db_index=True)
    call_id = models.UUIDField(null=True, blank=True, unique=True, help_text="The tool call that made it.")
    fields = models.JSONField(default=dict)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.author} {self.action} {self.record_id}"

    @property
    def action_word(self) -> str:
        """In English, to be translated where it is shown."""
        return self.Action(self.action).label.lower()
