"""Memories as JSON."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.http.strict import Choice, Moment, ObjectField, StrictSerializer, Text, Whole
from knowledge.models import Memory, MemoryVersion
from knowledge.models.memory import SUBJECT, TEXT

CONTENT = ["text", "kind", "subject", "valid_from", "valid_until"]


class SourceSerializer(serializers.Serializer):
    """Null where a person wrote it."""

    run = serializers.CharField(source="run_id", allow_null=True)
    call = serializers.CharField(source="call_id", allow_null=True)


class Sourced(serializers.ModelSerializer):
    source = serializers.SerializerMethodField()  # type: ignore[assignment]

    @extend_schema_field(SourceSerializer)
    def get_source(self, row: Any) -> dict[str, str | None]:
        source: dict[str, str | None] = {"run": None, "call": None}
        if row.run_id:
            source["run"] = str(row.run_id)
        if row.call_id:
            source["call"] = str(row.call_id)
        return source


class MemorySerializer(Sourced):
    """One memory; `agent` and `team` are names, where it belongs to one."""

    id = serializers.CharField(read_only=True)
    owner = serializers.SlugRelatedField(slug_field="username", read_only=True)
    agent = serializers.SlugRelatedField(slug_field="name", read_only=True, allow_null=True)
    team = serializers.SlugRelatedField(slug_field="name", read_only=True, allow_null=True)
    replaces = serializers.CharField(
        source="replaces_id", read_only=True, allow_null=True, help_text="Of a suggestion: the memory it is to change."
    )

    class Meta:
        model = Memory
        fields = [
            "id", *CONTENT, "scope", "owner", "agent", "team", "source", "untrusted", "status", "version", "replaces",
            "created_at", "updated_at",
        ]  # fmt: skip
        read_only_fields = fields


class MemoryVersionSerializer(Sourced):
    class Meta:
        model = MemoryVersion
        fields = ["number", "action", *CONTENT, "untrusted", "author", "is_agent", "source", "at"]
        read_only_fields = fields


class FoundMemorySerializer(MemorySerializer):
    because = serializers.CharField(read_only=True, help_text="Why it fits.")

    class Meta(MemorySerializer.Meta):
        fields = [*MemorySerializer.Meta.fields, "because"]
        read_only_fields = fields


class FoundListSerializer(serializers.Serializer):
    results = FoundMemorySerializer(many=True)


class ExportedMemorySerializer(serializers.Serializer):
    memory = MemorySerializer()
    versions = MemoryVersionSerializer(many=True)


class ExportSerializer(serializers.Serializer):
    results = ExportedMemorySerializer(many=True)


class ErasedSerializer(serializers.Serializer):
    erased = serializers.IntegerField()


class ChangeSerializer(StrictSerializer):
    """What is not sent stays as it is."""

    text = Text(max_length=TEXT, required=False)
    kind = Choice(choices=Memory.Kind.choices, required=False)
    subject = Text(max_length=SUBJECT, required=False, allow_blank=True)
    valid_from = Moment(required=False, allow_null=True)
    valid_until = Moment(required=False, allow_null=True)


class NewMemorySerializer(ChangeSerializer):
    text = Text(max_length=TEXT)
    scope = Choice(choices=Memory.Scope.choices, default=Memory.Scope.PERSON)
    agent = Text(max_length=64, required=False, help_text="Name of the agent, for the scopes person_agent and agent.")
    team = Text(max_length=64, required=False, help_text="Name of the team, for the scope team.")

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        scope = fields["scope"]
        needed = {"person_agent": "agent", "agent": "agent", "team": "team"}.get(scope)
        if needed and needed not in fields:
            raise serializers.ValidationError({needed: f"The scope {scope} needs this field."})
        for name in ("agent", "team"):
            if name in fields and name != needed:
                raise serializers.ValidationError({name: f"The scope {scope} does not have this field."})
        return fields


class VersionSerializer(StrictSerializer):
    version = Whole(min_value=1, max_value=999_999_999, help_text="The version whose content comes back.")


class AgentFileSerializer(StrictSerializer):
    file = ObjectField(help_text="The JSON of Letta’s agent file; its memory blocks are read.")
    agent = Text(max_length=64, required=False, help_text="Only this agent is to know it; default: all your agents.")


class ImportedSerializer(serializers.Serializer):
    created = serializers.IntegerField(help_text="Suggestions that now wait for you.")
    known = serializers.IntegerField(help_text="Texts that were remembered already.")
