"""Sessions and their messages as JSON."""

from rest_framework import serializers

from agents.http.strict import StrictModelSerializer
from runs.models import Message, Session


class SessionSerializer(StrictModelSerializer):
    agent = serializers.CharField(source="agent.name", allow_null=True, read_only=True)
    parent = serializers.UUIDField(source="parent_id", allow_null=True, read_only=True)

    class Meta:
        model = Session
        fields = [
            "id", "title", "agent", "device", "parent", "depth", "status", "pinned", "folder",
            "forked_from", "forked_before", "variables", "summary", "has_untrusted", "metadata",
            "created_at", "updated_at",
        ]  # fmt: skip
        read_only_fields = [
            "id", "depth", "forked_from", "forked_before", "variables", "summary", "has_untrusted", "created_at",
            "updated_at",
        ]  # fmt: skip


class MessageSerializer(serializers.ModelSerializer):
    run = serializers.UUIDField(source="run_id", allow_null=True)
    text = serializers.CharField()

    class Meta:
        model = Message
        fields = ["id", "seq", "role", "content", "text", "tool_calls", "untrusted", "run", "created_at"]
