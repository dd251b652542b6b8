"""The pattern of everything that is published: a working row, immutable versions, and a pointer to
the live one.
"""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_noop as _

from agents.exceptions import Invalid, NewerFormat
from agents.spec import FORMAT


class Version(models.Model):
    """An immutable version. Subclasses name their parent; (parent, number) and (parent, sha256) are
    unique.
    """

    number = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    note = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    format = models.PositiveSmallIntegerField(default=FORMAT, editable=False)

    class Meta:
        abstract = True
        ordering = ["-number"]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk and not self._state.adding:
            raise TypeError("A version cannot be changed; publish a new one.")
        super().save(*args, **kwargs)

    def require_known_format(self) -> None:
        """Raises NewerFormat if a newer Muster wrote it: this one would ignore what it does not know."""
        if self.format > FORMAT:
            error = NewerFormat(
                f"“{self}” was published by a newer Muster (format {self.format}, this one reads {FORMAT}).",
                hint="Update this process, or publish the definition again from here.",
            )
            error.format = self.format
            raise error


class Published(models.Manager):
    """Versions with a number: nothing else can be listed, compared, chosen or made live."""

    def get_queryset(self) -> models.QuerySet:
        return super().get_queryset().filter(number__isnull=False)


class TriedVersion(Version):
    """Published, with a number; or a draft that somebody tried, without one. Its `spec` is the whole definition."""

    # The name of the field that points to the working row.
    parent: str

    number = models.PositiveIntegerField(null=True, blank=True)
    spec = models.JSONField()

    objects = Published()
    everything = models.Manager()  # noqa: DJ012 (it is taken for a field)

    class Meta(Version.Meta):
        abstract = True

    def __str__(self) -> str:
        name = getattr(self, self.parent).name
        if self.is_draft:
            return f"{name} (draft)"
        return f"{name} v{self.number}"

    @property
    def is_draft(self) -> bool:
        return self.number is None

    @staticmethod
    def unique(parent: str) -> list[models.BaseConstraint]:
        """The constraints of a subclass: its numbers and its contents are unique in each parent."""
        content = [parent, "sha256"]
        return [
            models.UniqueConstraint(fields=[parent, "number"], name=f"{parent}_version_number"),
            models.UniqueConstraint(
                fields=content, condition=Q(number__isnull=False), name=f"{parent}_version_content"
            ),
            models.UniqueConstraint(fields=content, condition=Q(number__isnull=True), name=f"{parent}_draft_content"),
        ]


def make_version(row: Any, spec: Any, *, author: Any, note: str) -> Any:
    """The version of this agent or chain with this content: an earlier one if there is one, else a
    new one with the next number. The row is locked.
    """
    sha256 = spec.sha256()
    existing = row.versions.filter(sha256=sha256).first()
    if existing is not None:
        return existing
    number = next_number(row.versions)
    content = spec.model_dump(mode="json")
    return row.versions.create(number=number, sha256=sha256, spec=content, author=author, note=note)


def next_number(versions: Any) -> int:
    last_number = versions.aggregate(last=models.Max("number"))["last"]
    return (last_number or 0) + 1


def find_earlier_version(row: Any, number: int) -> Any:
    """The version with this number. Raises Invalid."""
    version = row.versions.filter(number=number).first()
    if version is None:
        raise Invalid(
            _("“%(name)s” has no version %(number)s.") % {"name": row.name, "number": number},
            code="unknown_version",
            hint=_("See versions/ for the existing versions."),
        )
    return version
