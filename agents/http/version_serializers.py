"""Versions as JSON: published, listed, compared."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.models import AgentVersion

from .strict import ObjectField, StrictSerializer, Text, Whole


class PublishSerializer(StrictSerializer):
    note = Text(
        max_length=500, required=False, allow_blank=True, default="", help_text="What changed, for the history."
    )


class RollbackSerializer(StrictSerializer):
    version = Whole(min_value=1, max_value=2**31 - 1)


class PublishedSerializer(serializers.Serializer):
    version = serializers.IntegerField(help_text="Its number.")
    sha256 = serializers.CharField()


class NumberedSerializer(serializers.ModelSerializer):
    """A version without its content."""

    # The version's foreign key to its row.
    of: str
    version = serializers.IntegerField(source="number")
    author: Any = serializers.SlugRelatedField(slug_field="username", read_only=True, allow_null=True)
    is_live = serializers.SerializerMethodField()

    class Meta:
        fields = ["version", "sha256", "author", "note", "created_at", "is_live"]

    def get_is_live(self, version: Any) -> bool:
        return version.pk == getattr(version, self.of).published_id


class VersionSerializer(NumberedSerializer):
    of = "agent"

    class Meta(NumberedSerializer.Meta):
        model = AgentVersion


class WholeVersionSerializer(VersionSerializer):
    spec = ObjectField(read_only=True)

    class Meta(VersionSerializer.Meta):
        fields = [*VersionSerializer.Meta.fields, "spec"]


@extend_schema_field({})
class AnyField(serializers.JSONField):
    """Any JSON."""


class ChangeSerializer(serializers.Serializer):
    path = serializers.CharField()
    vars()["from"] = AnyField()
    to = AnyField()


class DiffSerializer(serializers.Serializer):
    vars()["from"] = serializers.IntegerField(allow_null=True, help_text="Null: the draft.")
    to = serializers.IntegerField(allow_null=True, help_text="Null: the draft.")
    changes = ChangeSerializer(many=True)
    text = serializers.CharField(help_text="Unified diff of both as YAML.")
