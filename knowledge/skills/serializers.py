"""Skills as JSON."""

import base64
import binascii
from typing import Any

from rest_framework import serializers

from agents.http.strict import Flag as StrictFlag
from agents.http.strict import ObjectField, StrictSerializer, Text
from agents.http.version_serializers import NumberedSerializer, PublishSerializer
from agents.serializers.owned import OWNED, OwnedSerializer
from knowledge.models import Skill, SkillVersion
from knowledge.models.skill import TEXT
from plumbing.untrusted.archives import MOST_FILES

from . import files


class SkillFileSerializer(serializers.Serializer):
    path = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes.")
    sha256 = serializers.CharField()
    media_type = serializers.CharField()


class SentFileSerializer(StrictSerializer):
    """One file; send its content as `text`, or as `data` (base64)."""

    path = Text(max_length=240, help_text="Relative to SKILL.md, such as scripts/fill.py.")
    text = Text(required=False, allow_blank=True, trim_whitespace=False)
    data = Text(required=False, allow_blank=True, help_text="Base64.")  # type: ignore[assignment]

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        if ("text" in fields) == ("data" in fields):
            raise serializers.ValidationError("Send either “text” or “data”.")
        if "text" in fields:
            return {"path": fields["path"], "content": fields["text"].encode()}
        try:
            return {"path": fields["path"], "content": base64.b64decode(fields["data"], validate=True)}
        except (binascii.Error, ValueError):
            raise serializers.ValidationError({"data": "This is not valid base64."})


class SkillSummarySerializer(OwnedSerializer):
    description = serializers.CharField(read_only=True, help_text="From SKILL.md.")
    published_version = serializers.IntegerField(source="published.number", read_only=True, allow_null=True)
    untrusted = serializers.BooleanField(read_only=True, help_text="It was imported, and no person has reviewed it.")

    class Meta:
        model = Skill
        fields = ["name", "description", "published_version", "untrusted", *OWNED]


class SkillSerializer(SkillSummarySerializer):
    """The working row. `text` is SKILL.md, whose front matter gives name and description."""

    name = serializers.CharField(read_only=True)
    text = Text(max_length=TEXT, trim_whitespace=False, help_text="SKILL.md: front matter and instructions.")
    files = SkillFileSerializer(many=True, read_only=True)

    class Meta(SkillSummarySerializer.Meta):
        fields = ["name", "description", "text", "files", "published_version", "untrusted", *OWNED]


class WrittenSkillSerializer(StrictSerializer):
    """What a person writes. `files` replaces all other files."""

    text = Text(max_length=TEXT, trim_whitespace=False, help_text="SKILL.md: front matter and instructions.")
    files = SentFileSerializer(many=True, required=False, max_length=MOST_FILES)  # type: ignore[call-arg]

    def validate_files(self, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
        paths = [one["path"] for one in sent]
        if files.MAIN in paths or len(set(paths)) < len(paths):
            raise serializers.ValidationError(f"Each path occurs once, and {files.MAIN} is the field “text”.")
        return sent


class ReplacingFileSerializer(SentFileSerializer):
    """One file; as it was answered, without a content, the skill keeps the file with this hash."""

    echoed = ("size", "media_type")
    sha256 = Text(required=False, max_length=64, help_text="Of a file of the skill, in place of its content.")

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        if fields.keys() == {"path", "sha256"}:
            return fields
        return super().validate(fields)


class ReplacedSkillSerializer(WrittenSkillSerializer):
    """A skill as a GET answered it, changed or not."""

    echoed = tuple(name for name in SkillSerializer.Meta.fields if name not in ("text", "files", "team"))
    files = ReplacingFileSerializer(many=True, required=False)
    team = Text(required=False, allow_null=True, help_text="Share with everyone in this team.")


class SkillVersionSerializer(NumberedSerializer):
    of = "skill"

    class Meta(NumberedSerializer.Meta):
        model = SkillVersion
        fields = [*NumberedSerializer.Meta.fields, "untrusted"]


class WholeSkillVersionSerializer(SkillVersionSerializer):
    front = ObjectField(read_only=True, help_text="The front matter.")
    files = SkillFileSerializer(many=True, read_only=True)

    class Meta(SkillVersionSerializer.Meta):
        fields = [*SkillVersionSerializer.Meta.fields, "text", "front", "files"]


class PublishSkillSerializer(PublishSerializer):
    reviewed = StrictFlag(
        required=False, default=False,
        help_text="You have read an imported skill, with its files: its text is no longer treated as strangers’ text.",
    )  # fmt: skip


class SkillUserSerializer(serializers.Serializer):
    kind = serializers.ChoiceField(choices=["agent", "chain"])
    name = serializers.CharField(allow_blank=True, help_text="Empty: you cannot see it.")
    mode = serializers.CharField()
    version = serializers.IntegerField(allow_null=True, help_text="Null: it follows the published version.")


class SkillUsersSerializer(serializers.Serializer):
    results = SkillUserSerializer(many=True)
    next = serializers.URLField(allow_null=True)
