"""Records as JSON: the fields of the kind beside those that every record has."""

from typing import Any

from rest_framework import serializers

from agents.http.strict import ObjectField, StrictSerializer, Text
from devices.models import Record, RecordChange


class RecordSerializer(serializers.ModelSerializer):
    """Also has the fields of its kind, such as `title`, `description` and `state`."""

    id = serializers.CharField(read_only=True)
    kind = serializers.CharField(read_only=True, help_text="project, task, comment, note or timeline.")
    suggested_change = ObjectField(
        source="suggested", allow_null=True, read_only=True, help_text="Fields that an agent wants to change."
    )
    untrusted = serializers.BooleanField(
        source="is_untrusted", read_only=True, help_text="Written after untrusted text was read."
    )

    class Meta:
        model = Record
        fields = [
            "id", "kind", "review", "reason", "suggested_change", "is_ai_suggested", "untrusted", "version",
            "created_at", "updated_at",
        ]  # fmt: skip
        read_only_fields = fields

    def to_representation(self, row: Record) -> dict[str, Any]:
        return {**row.data, **super().to_representation(row)}


class RecordChangeSerializer(serializers.ModelSerializer):
    """One entry of a record's history."""

    id = serializers.CharField(read_only=True)
    run = serializers.CharField(source="run_id", allow_null=True, read_only=True)
    call = serializers.CharField(source="call_id", allow_null=True, read_only=True)
    fields = ObjectField(read_only=True, help_text="Name → [before, after].")

    class Meta:
        model = RecordChange
        fields = ["id", "at", "action", "version", "author", "is_agent", "run", "call", "fields", "note"]
        read_only_fields = fields


class ReasonSerializer(StrictSerializer):
    reason = Text(max_length=500, required=False, allow_blank=True, default="")


class CommentSerializer(StrictSerializer):
    text = Text(max_length=200_000)
