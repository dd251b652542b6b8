"""What the person of a run thinks of its answer: a thumb and a note, for evaluation sets."""

from django.db import models
from django.db.models import Q

from plumbing.stored_rows import StoredRow

from .run import Run


class Feedback(StoredRow):
    class Rating(models.TextChoices):
        UP = "up", "Good"
        DOWN = "down", "Bad"

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="feedback")
    rating = models.CharField(max_length=4, choices=Rating.choices)
    note = models.CharField(max_length=1000, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "feedback"
        constraints = [models.CheckConstraint(condition=Q(rating__in=["up", "down"]), name="feedback_rating_known")]

    def __str__(self) -> str:
        start = self.note[:60]
        return f"{self.rating}: {start}"
