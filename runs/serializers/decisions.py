"""Approvals, questions and what people answer as JSON."""

from typing import Any

from rest_framework import serializers

from agents.http.strict import Choice, Flag, Named, Pattern, StrictSerializer, Text
from runs.models import Approval, InputRequest


class ApprovalSerializer(serializers.ModelSerializer):
    run = serializers.UUIDField(source="run_id")
    call = serializers.UUIDField(source="call_id", allow_null=True)
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)
    may_decide = serializers.BooleanField(help_text="Whether you are among those who may decide it.")

    class Meta:
        model = Approval
        fields = [
            "id", "run", "call", "tool", "effect", "reason", "arguments", "findings", "edited_arguments", "decides",
            "not_starter", "may_decide", "expires_at", "default", "status", "decided_by", "decided_at", "note",
            "created_at",
        ]  # fmt: skip


class DecisionSerializer(StrictSerializer):
    decision = Choice(choices=["approve", "deny"])
    arguments = serializers.DictField(required=False, allow_null=True)
    note = Text(required=False, allow_blank=True, max_length=500)


class CancelSerializer(StrictSerializer):
    reason = Text(required=False, allow_blank=True, max_length=200)


class InputRequestSerializer(serializers.ModelSerializer):
    """A question that a run waits for."""

    run = serializers.UUIDField(source="run_id")
    call = serializers.UUIDField(source="call_id")
    answered_by = serializers.CharField(source="answered_by.username", default=None, allow_null=True)

    class Meta:
        model = InputRequest
        fields = [
            "id", "run", "call", "kind", "name", "prompt", "schema", "arguments", "expires_at", "status", "value",
            "error", "answered_by", "answered_at", "created_at",
        ]  # fmt: skip


class InputFailureSerializer(StrictSerializer):
    code = Pattern(r"^[-a-zA-Z0-9_]+$", max_length=64, default="tool_failed")
    message = Text(max_length=10_000)


class InputAnswerSerializer(StrictSerializer):
    """One of the three: the answer, a failure of the tool, or the refusal to answer."""

    value = serializers.JSONField(required=False, allow_null=True)
    error = InputFailureSerializer(required=False)
    decline = Flag(required=False)

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        # `"decline": false` says nothing.
        names = [name for name in ("value", "error", "decline") if name in data and data[name] is not False]
        if len(names) != 1:
            raise serializers.ValidationError("Send one of: value, error, decline.")
        return data


class ResumeAnswerSerializer(StrictSerializer):
    """One of the three."""

    result = serializers.JSONField(required=False, allow_null=True, help_text="Of a tool that the caller executes.")
    answer = serializers.JSONField(
        required=False, allow_null=True, help_text='To a question. To an approval: {"decision", "arguments"?, "note"?}.'
    )
    error = InputFailureSerializer(required=False, help_text="Or the message alone, as text.")

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        # A message alone stands for an error with the usual code.
        if isinstance(data, dict) and isinstance(data.get("error"), str):
            data = {**data, "error": {"message": data["error"]}}
        return super().to_internal_value(data)

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if len(data) != 1:
            raise serializers.ValidationError("Send one of: result, answer, error.")
        return data


class ResumeSerializer(StrictSerializer):
    inputs = Named(
        most=1000, child=ResumeAnswerSerializer(), allow_empty=False, help_text="By the ids in the run's `pending`."
    )
