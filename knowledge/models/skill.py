"""Skills: instructions with files that agents read when they need them, in the form of the Agent Skills specification.

Skill is the row that an author edits; SkillVersion is its content at one time, immutable.
"""

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from agents.models import StoredFile, Tool
from agents.models.team import Owned, OwnedQuerySet, check_name, one_name_per_owner
from agents.models.version import Version

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Characters of SKILL.md.
TEXT = 256_000


def check_skill_name(value: str) -> None:
    """A name by the specification that is not a path of the API."""
    if not NAME.fullmatch(value):
        raise ValidationError("Use lower-case letters and digits, with single hyphens between them.", code="invalid")
    check_name(value)


class Content(models.Model):
    """The columns that a skill and its versions have in common."""

    text = models.TextField(help_text="SKILL.md: the front matter and the instructions.")
    files = models.JSONField(
        default=list, blank=True, editable=False, help_text="The other files: [{path, size, sha256, media_type}]."
    )
    untrusted = models.BooleanField(
        default=False, editable=False, help_text="It was imported, and no person has reviewed it."
    )

    class Meta:
        abstract = True

    @property
    def paths(self) -> list[str]:
        return [file["path"] for file in self.files]

    def whole(self) -> dict[str, Any]:
        """For comparing versions and for the hash."""
        digests = {one["path"]: one["sha256"] for one in self.files}
        return {"text": self.text, "files": digests, "untrusted": self.untrusted}


class Skill(Owned, Content):
    name = models.CharField(max_length=64, validators=[check_skill_name])
    description = models.TextField(max_length=1024, editable=False, help_text="What it is for, from SKILL.md.")
    bundle = models.ForeignKey(
        StoredFile, on_delete=models.RESTRICT, null=True, editable=False, related_name="skills",
        help_text="A zip archive of the other files.",
    )  # fmt: skip
    published = models.ForeignKey(
        "SkillVersion", on_delete=models.SET_NULL, null=True, blank=True, related_name="+", editable=False
    )

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("skill")

    def __str__(self) -> str:
        return self.name

    def listed_as(self) -> dict[str, Any]:
        return {"kind": Tool.Kind.SKILL, "source__skill": self.pk}


class SkillVersion(Version, Content):
    skill = models.ForeignKey(Skill, on_delete=models.CASCADE, related_name="versions")
    front = models.JSONField(help_text="The front matter of SKILL.md.")
    bundle = models.ForeignKey(StoredFile, on_delete=models.RESTRICT, null=True, related_name="skill_versions")

    class Meta(Version.Meta):
        constraints = [
            models.UniqueConstraint(fields=["skill", "number"], name="skill_version_number"),
            models.UniqueConstraint(fields=["skill", "sha256"], name="skill_version_content"),
        ]

    def __str__(self) -> str:
        return f"{self.skill.name} v{self.number}"
