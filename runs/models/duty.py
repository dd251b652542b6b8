"""Work that one worker does for all of them."""

from django.db import models


class Duty(models.Model):
    """One piece of recurring work. A worker does it while it holds the lease; if the worker dies,
    another takes it.
    """

    name = models.CharField(max_length=32, primary_key=True)
    owner = models.CharField(max_length=64, blank=True, help_text="The worker that does it now.")
    lease_expires_at = models.DateTimeField(null=True, blank=True, help_text="By the clock of the database.")
    next_at = models.DateTimeField(null=True, blank=True, help_text="When it is due again; empty: always.")
    done_at = models.DateTimeField(null=True, blank=True)
    state = models.JSONField(default=dict, blank=True, help_text="What the work has to remember.")

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "duties"

    def __str__(self) -> str:
        return self.name
