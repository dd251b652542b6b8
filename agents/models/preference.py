"""What a person chose for their own account: language, time zone, and how they are notified."""

from typing import Any, Self

from django.conf import settings
from django.db import models

from agents.fields import EncryptedTextField
from plumbing.stored_rows import StoredRow


class Preference(StoredRow):
    """One row for each person who changed something; `of` gives the defaults to everybody else."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="preference"
    )
    language = models.CharField(max_length=8, blank=True, help_text="Of pages and notices; empty: the browser's.")
    zone = models.CharField(max_length=64, blank=True, help_text="Time zone of pages; empty: the browser's.")
    email_notices = models.BooleanField(default=True, help_text="E-mail when a run waits for this person.")
    push_notices = models.BooleanField(default=True, help_text="Notify the browsers that subscribed.")
    teams_url = EncryptedTextField(
        blank=True, help_text="Address of a Teams workflow that posts notices; it is a secret."
    )
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"preferences of {self.user}"

    @classmethod
    def of(cls, user: Any) -> Self:
        """The person's row, or an unsaved row with the defaults."""
        row = cls.objects.filter(user_id=user.pk).first()
        return row or cls(user_id=user.pk)
