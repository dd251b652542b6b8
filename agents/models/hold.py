"""A restored site begins on hold: what was under way at the backup would otherwise run a second time."""

from typing import Any

from django.db import models
from django.db.models import Exists

from plumbing import clock
from plumbing.statements import Select


class SiteHold(models.Model):
    """While there is a row, no run, step or schedule is started and nothing is delivered; `resume` deletes it.

    The queries that take work ask for `absent()`, so that this holds in every process at once and costs no statement.
    """

    since = models.DateTimeField(default=clock.near)
    snapshot_at = models.DateTimeField(help_text="When the backup was made: what happened after it is not known here.")
    reason = models.CharField(max_length=300)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.reason}, since {self.since:%Y-%m-%d %H:%M:%S} UTC"

    @classmethod
    def absent(cls) -> Any:
        """A condition of a query: the site is not on hold."""
        return ~Exists(cls.objects.order_by())

    @classmethod
    def current(cls) -> "SiteHold | None":
        return CURRENT.first()


CURRENT = Select(lambda _: SiteHold.objects.order_by("id")[:1])
