"""Questions with the document that answers them, and how well a version of a collection's search did on them."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from plumbing.stored_rows import StoredRow

from .collection import NAME, Collection

SHARE = [MinValueValidator(0.0), MaxValueValidator(1.0)]


class EvaluationQuestion(StoredRow):
    """`place` is a page (“page 3”), a heading, or empty for any place of the document."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="questions")
    question = models.CharField(max_length=500)
    document = models.CharField(max_length=NAME, help_text="The name of the document that answers it.")
    place = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["collection", "question"], name="evaluation_question_once")]

    def __str__(self) -> str:
        return self.question


class Evaluation(models.Model):
    """One run of the questions. `ranks` is [{"question", "document", "place", "rank"}]; rank counts from 1, null: not
    found.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="evaluations")
    version = models.PositiveIntegerField()
    recall_at_5 = models.FloatField(validators=SHARE)
    mrr = models.FloatField(validators=SHARE)
    ranks = models.JSONField(default=list)
    warning = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["collection", "-id"], name="evaluation_of_collection")]

    def __str__(self) -> str:
        return f"{self.collection}, version {self.version}"
