"""Functions, versions, tests and executions as JSON."""

from typing import Any

from rest_framework import serializers

from agents.exceptions import Conflict
from agents.http.strict import (
    Choice,
    Flag,
    Number,
    ObjectField,
    OptionalSchemaField,
    RowId,
    StrictModelSerializer,
    StrictSerializer,
    Text,
    Whole,
)
from agents.http.version_serializers import AnyField, NumberedSerializer, PublishSerializer
from agents.models import Tool
from agents.models.display import DISPLAYED
from agents.models.options import find_options
from agents.serializers.owned import OWNED, DisplayedSerializer, OwnedSerializer
from functions import store
from functions.models import LARGEST, Execution, FunctionTest, FunctionVersion, StoredFunction

BODY = [name for name in find_options(StoredFunction) if name != "is_deprecated"]
TOLD = ["requires", "is_deprecated", "published_version", "refusals", "draft_sha256"]
# How often a change is tried, while others change the same function.
ATTEMPTS = 5


class RefusalSerializer(serializers.Serializer):
    severity = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField()
    line = serializers.IntegerField()
    column = serializers.IntegerField()
    end_line = serializers.IntegerField()
    end_column = serializers.IntegerField()
    field = serializers.CharField(required=False, help_text="The field with the problem; the source if absent.")


class FunctionSerializer(DisplayedSerializer):
    separator = "_"
    effect = Choice(required=False, choices=Tool.Effect.choices)
    note = Text(write_only=True, required=False, allow_blank=True, max_length=500, help_text="Stored in the audit log.")
    expected = Text(
        write_only=True, required=False, allow_blank=True, max_length=64,
        help_text="The draft_sha256 of the draft you edited: 409 if another user changed it since.",
    )  # fmt: skip
    requires = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Libraries named in the source's header."
    )
    published_version = serializers.IntegerField(source="published.number", read_only=True, allow_null=True)
    refusals = serializers.SerializerMethodField(help_text="Always empty: a source with problems is not stored.")
    draft_sha256 = serializers.SerializerMethodField(
        help_text="Hash of the working row; pass it as `expected` when you change or publish."
    )

    compared = ("is_async", "requires_context")

    class Meta:
        model = StoredFunction
        fields = ["name", *BODY, "note", "expected", *TOLD, *OWNED]

    def get_refusals(self, function: StoredFunction) -> list[dict[str, Any]]:
        return []

    def get_draft_sha256(self, function: StoredFunction) -> str:
        return store.draft_hash(function)

    def create(self, validated: dict[str, Any]) -> StoredFunction:
        function = StoredFunction(owner=self.context["request"].user)
        return self.kept(function, validated)

    def update(self, function: StoredFunction, validated: dict[str, Any]) -> StoredFunction:
        """A change of other fields that is stored during the check is kept: then this change is made again."""
        for _attempt in range(ATTEMPTS - 1):
            try:
                return self.kept(function, dict(validated))
            except Conflict as error:
                if error.code != "changed_meanwhile" or validated.get("expected"):
                    raise
            function.refresh_from_db()
        return self.kept(function, validated)

    def kept(self, function: StoredFunction, validated: dict[str, Any]) -> StoredFunction:
        note = validated.pop("note", "")
        expected = validated.pop("expected", "")
        flags = expectations(validated)
        fill_function(function, validated)
        user = self.context["request"].user
        address = self.context["address"]
        return store.save_function(function, user=user, source=address, note=note, expected=expected, **flags)


def expectations(validated: dict[str, Any]) -> dict[str, Any]:
    """The two flags derived from the source, if the caller stated their expected values."""
    flags: dict[str, Any] = {}
    for name in ("is_async", "requires_context"):
        if name in validated:
            flags[name] = validated.pop(name)
    return flags


def fill_function(function: StoredFunction, validated: dict[str, Any]) -> StoredFunction:
    for name, value in validated.items():
        if name == "input_schema" and value is None:
            # It is derived from the source then.
            value = {}
        setattr(function, name, value)
    return function


class FunctionSummarySerializer(OwnedSerializer):
    description = Text(
        required=False, allow_blank=True, help_text="If empty, the first paragraph of the docstring is used."
    )
    published_version = serializers.IntegerField(source="published.number", read_only=True, allow_null=True)

    class Meta:
        model = StoredFunction
        fields = ["name", *DISPLAYED, "description", "effect", "is_pure", "is_deprecated", "published_version", *OWNED]


class DraftSerializer(FunctionSerializer):
    """The body of a function that is checked but not stored; its name may be missing or already
    used.
    """

    name = Text(max_length=64, required=False, default="draft")
    echoed = ("note", "expected", *TOLD, *OWNED)

    class Meta(FunctionSerializer.Meta):
        fields = ["name", *BODY]
        validators: list[Any] = []

    def add_name(self, data: Any) -> Any:
        return data

    def validate_name(self, name: str) -> str:
        return name

    def draft(self) -> tuple[StoredFunction, dict[str, Any]]:
        """(unsaved row, the caller's expected flags)."""
        values = {name: value for name, value in self.validated_data.items() if name != "arguments"}
        expected = expectations(values)
        function = StoredFunction(owner=self.context["request"].user)
        fill_function(function, values)
        return function, expected


class TrySerializer(DraftSerializer):
    arguments = ObjectField(required=False, default=dict)

    class Meta(DraftSerializer.Meta):
        fields = [*DraftSerializer.Meta.fields, "arguments"]


class ValidatedSerializer(serializers.Serializer):
    valid = serializers.BooleanField()
    refusals = RefusalSerializer(many=True)
    entry = serializers.CharField(allow_blank=True)
    description = serializers.CharField(allow_blank=True)
    is_async = serializers.BooleanField()
    requires_context = serializers.BooleanField()
    input_schema = ObjectField()
    output_schema = OptionalSchemaField(help_text="Schema of the return annotation; a suggestion.")
    imports = serializers.ListField(child=serializers.CharField(), help_text="Modules that the source imports.")
    requires = serializers.ListField(child=serializers.CharField(), help_text="Libraries named in its header.")


class ExecuteSerializer(StrictSerializer):
    arguments = ObjectField(required=False, default=dict)
    version = Whole(required=False, min_value=1, max_value=LARGEST, help_text="Default: the published version.")


class FunctionErrorSerializer(serializers.Serializer):
    type = serializers.CharField()
    message = serializers.CharField(allow_blank=True)
    line = serializers.IntegerField(allow_null=True)


class ExecutedSerializer(serializers.Serializer):
    execution = serializers.UUIDField(source="pk", allow_null=True, help_text="Null for a draft, which is not stored.")
    status = serializers.CharField()
    result = AnyField(allow_null=True)
    error = FunctionErrorSerializer(allow_null=True)
    printed = serializers.CharField(allow_blank=True)
    wall_ms = serializers.FloatField()
    cpu_ms = serializers.FloatField()
    peak_kb = serializers.IntegerField()
    isolation = serializers.CharField(allow_blank=True)
    version = serializers.IntegerField(source="version_number", allow_null=True)
    cached = serializers.BooleanField(source="is_cached")


class ExecutionSerializer(ExecutedSerializer):
    arguments = ObjectField()
    run = serializers.UUIDField(allow_null=True)
    requests = serializers.ListField(child=ObjectField(), help_text="Requests made by ctx.http.")
    started_at = serializers.DateTimeField()


class PublishFunctionSerializer(PublishSerializer):
    override = Flag(required=False, default=False, help_text="Publish even if a test fails (requires a permission).")
    expected = Text(
        required=False, allow_blank=True, default="", max_length=64, help_text="The draft_sha256 of the draft you read."
    )


class FunctionVersionSerializer(NumberedSerializer):
    of = "function"

    class Meta(NumberedSerializer.Meta):
        model = FunctionVersion


class WholeFunctionVersionSerializer(FunctionVersionSerializer):
    spec = ObjectField(read_only=True)

    class Meta(FunctionVersionSerializer.Meta):
        fields = [*FunctionVersionSerializer.Meta.fields, "source", "spec"]


class FunctionTestSerializer(StrictModelSerializer):
    id = RowId(read_only=True)
    name = Text(max_length=100)
    arguments = ObjectField(required=False, default=dict)
    expects = Choice(required=False, choices=FunctionTest.Expects.choices, default="value")
    expected = AnyField(
        required=False, allow_null=True, default=None, help_text="The value, a JSON Schema, or an error type."
    )
    tolerance = Number(required=False, min_value=0, max_value=1e300, default=0.0)

    class Meta:
        model = FunctionTest
        fields = ["id", "name", "arguments", "expects", "expected", "tolerance"]

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        expects = values.get("expects", getattr(self.instance, "expects", "value"))
        expected = values.get("expected", getattr(self.instance, "expected", None))
        if expects == "schema":
            OptionalSchemaField(allow_null=False).run_validation(expected)
        if expects == "error" and not isinstance(expected, str | dict):
            raise serializers.ValidationError({"expected": 'Write the error type, or {"type", "message"}.'})
        return values


class TestFromSerializer(StrictSerializer):
    __test__ = False
    execution = serializers.UUIDField()
    name = Text(max_length=100, required=False, allow_blank=True, default="")


class RunTestsSerializer(StrictSerializer):
    version = Whole(
        required=False, allow_null=True, default=None, min_value=1, max_value=LARGEST, help_text="Default: the draft."
    )


class VerdictSerializer(serializers.Serializer):
    test = serializers.CharField()
    ok = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True)
    status = serializers.CharField()
    result = AnyField(allow_null=True)
    error = FunctionErrorSerializer(allow_null=True)
    wall_ms = serializers.FloatField()


class VerdictsSerializer(serializers.Serializer):
    passed = serializers.IntegerField()
    failed = serializers.IntegerField()
    results = VerdictSerializer(many=True)


class ReplaySerializer(RunTestsSerializer):
    limit = Whole(required=False, default=20, min_value=1, max_value=200, help_text="Number of different inputs.")


class OutcomeSerializer(serializers.Serializer):
    status = serializers.CharField()
    result = AnyField(allow_null=True)
    error = FunctionErrorSerializer(allow_null=True)


class DifferenceSerializer(serializers.Serializer):
    execution = serializers.UUIDField()
    arguments = ObjectField()
    before = OutcomeSerializer()
    after = OutcomeSerializer()
    reason = serializers.CharField()


class ReplayedSerializer(serializers.Serializer):
    version = serializers.IntegerField(allow_null=True, help_text="Null: the draft.")
    replayed = serializers.IntegerField()
    same = serializers.IntegerField()
    differing = DifferenceSerializer(many=True)


class UserSerializer(serializers.Serializer):
    kind = serializers.CharField(help_text="agent, chain, step or hook.")
    name = serializers.CharField()
    mode = serializers.CharField(allow_blank=True)
    version = serializers.IntegerField(
        allow_null=True, help_text="The pinned version; null: follows the published one."
    )


class UsedBySerializer(serializers.Serializer):
    results = UserSerializer(many=True)
    next = serializers.URLField(allow_null=True)


def serialize_execution(execution: Execution) -> dict[str, Any]:
    """The fields of ExecutedSerializer, written by hand, as this is the most frequent response."""
    return {
        "execution": execution.pk,
        "status": execution.status,
        "result": execution.result,
        "error": execution.error,
        "printed": execution.printed,
        "wall_ms": execution.wall_ms,
        "cpu_ms": execution.cpu_ms,
        "peak_kb": execution.peak_kb,
        "isolation": execution.isolation,
        "version": execution.version_number,
        "cached": execution.is_cached,
    }


def serialize_trial(outcome: Any) -> dict[str, Any]:
    """A draft's outcome in the same format; nothing was stored."""
    error = None
    if outcome.error:
        error = outcome.error.as_dict()
    return {
        "execution": None,
        "status": outcome.status,
        "result": outcome.result,
        "printed": outcome.printed,
        "wall_ms": outcome.wall_ms,
        "cpu_ms": outcome.cpu_ms,
        "peak_kb": outcome.peak_kb,
        "isolation": outcome.isolation,
        "error": error,
        "version": None,
        "cached": False,
    }
