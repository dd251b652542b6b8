"""Rows of runs as JSON."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.http.strict import (
    Choice,
    Flag,
    KnownFields,
    Number,
    ObjectField,
    OptionalSchemaField,
    SchemaField,
    StrictSerializer,
    Text,
    Whole,
    Words,
)
from agents.serializers import ModelParamsSerializer
from runs.calls import pending
from runs.events import record as events
from runs.figures import totals
from runs.intake import caller_tools, options
from runs.lifecycle import endings, workers
from runs.models import Approval, InputRequest, Message, Run, RunEvent, Session, ToolCallRecord, Worker


class PartSerializer(serializers.Serializer):
    type = serializers.ChoiceField(choices=["text", "image", "file"])
    text = serializers.CharField(required=False)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["type"]}},
        ]
    }
)
class MessageTextField(serializers.Field):
    """A string, or a list of content parts."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, str):
            if "\x00" in data:
                raise serializers.ValidationError("A text cannot contain a NUL character.")
            return data
        if isinstance(data, list) and all(isinstance(part, dict) for part in data):
            return data
        raise serializers.ValidationError('Send a string, or a list of parts such as {"type": "text", "text": "…"}.')

    def to_representation(self, value: Any) -> Any:
        return value


class CallerToolSerializer(StrictSerializer):
    """A tool that the caller executes."""

    name = serializers.RegexField(caller_tools.NAME_PATTERN, help_text="Not the name of a tool of the agent.")
    description = Text(required=False, allow_blank=True, max_length=20_000)
    input_schema = SchemaField(required=False)
    timeout_s = serializers.FloatField(required=False, min_value=1, max_value=86_400, help_text="Default: 3600.")


class ToolPolicySerializer(StrictSerializer):
    """Narrows the agent's tools."""

    allowed = Words(required=False, allow_null=True, each=64, max_length=500, help_text="Only these; null: all.")
    blocked = Words(required=False, each=64, max_length=500)
    ask = Words(required=False, each=64, max_length=500, help_text="Ask a person before each call of these.")


class MostSerializer(StrictSerializer):
    """The most that the run and its child runs may use."""

    tokens = Whole(required=False, allow_null=True, min_value=1, max_value=10**12)
    cost = Number(required=False, allow_null=True, min_value=0, max_value=1_000_000, help_text="US dollars.")


BATCH_ALONE = ["batch"]


class PriorityField(Choice):
    """The one priority that can be asked for."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("help_text", "Its runs wait behind all others; null: who or what starts it decides.")
        super().__init__(choices=BATCH_ALONE, **kwargs)


class OptionsSerializer(StrictSerializer):
    """What a message may ask for beside its agent's definition (runs/intake/options.py)."""

    model = Text(required=False, allow_null=True, max_length=100, help_text="A model of the agent's provider.")
    model_params = ModelParamsSerializer(
        required=False, allow_null=True, help_text="Instead of the agent's, one by one."
    )
    instructions = Text(
        required=False, allow_null=True, allow_blank=True, max_length=options.MAX_INSTRUCTIONS,
        trim_whitespace=False, help_text="Added to the system prompt.",
    )  # fmt: skip
    variables = ObjectField(required=False, allow_null=True, help_text="Values for the variables of the system prompt.")
    tool_policy = ToolPolicySerializer(required=False, allow_null=True)
    output_schema = OptionalSchemaField(help_text="Instead of the agent's.")
    max_steps = Whole(
        required=False, allow_null=True, min_value=1, max_value=200, help_text="At most the agent's own limit."
    )
    budget = MostSerializer(required=False, allow_null=True)
    priority = PriorityField(required=False, allow_null=True)


class SendSerializer(OptionsSerializer):
    """Body of POST …/messages."""

    message = MessageTextField()
    session = serializers.UUIDField(required=False, allow_null=True)
    input = serializers.JSONField(required=False, allow_null=True)
    metadata = serializers.DictField(required=False)
    on_busy = serializers.ChoiceField(choices=["reject", "enqueue", "interrupt"], default="reject")
    timeout = serializers.FloatField(required=False, min_value=0.1, max_value=86_400)
    wait = serializers.FloatField(required=False, min_value=0, max_value=600)
    device = serializers.UUIDField(required=False, allow_null=True)
    parent = serializers.UUIDField(
        required=False, allow_null=True, help_text="A session of yours: the message starts a new session below it."
    )
    tools = serializers.ListField(
        child=CallerToolSerializer(), required=False, max_length=caller_tools.MOST,
        help_text="Tools that the caller executes in this run: it answers their input requests.",
    )  # fmt: skip
    version = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=2**31 - 1,
        help_text="The agent's version; null: the live one.",
    )
    draft = Flag(
        default=False, help_text="Try the agent's draft instead of a version: for people who may change the agent."
    )

    def validate(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["draft"] and body.get("version"):
            raise serializers.ValidationError({"draft": ["Send a version or “draft”, not both."]}, code="both")
        return body


class UsageSerializer(serializers.Serializer):
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost = serializers.CharField(help_text="US dollars, as a decimal.")


class CountsSerializer(serializers.Serializer):
    processed = serializers.IntegerField()
    created = serializers.IntegerField()
    updated = serializers.IntegerField()


class RunErrorSerializer(serializers.Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    step = serializers.CharField(required=False, help_text="Of a chain's run: the key of the step that failed.")
    run = serializers.CharField(required=False, help_text="Of a chain's run: the step's own run.")
    items = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="Of a for_each: the first failed items."
    )
    missing = serializers.JSONField(required=False, help_text="Of a step with `covers`: what is missing.")
    details = serializers.JSONField(required=False)


class RunUrlsSerializer(serializers.Serializer):
    self = serializers.CharField()
    events = serializers.CharField()
    stream = serializers.CharField()
    cancel = serializers.CharField()
    page = serializers.CharField()


class PendingInputSerializer(serializers.Serializer):
    """An answer that the run waits for: `POST …/resume` takes it by this id."""

    id = serializers.CharField()
    run = serializers.CharField(help_text="The run itself, or one below it.")
    kind = serializers.ChoiceField(choices=["tool", "question", "approval"])
    name = serializers.CharField(help_text="The tool.")
    arguments = serializers.JSONField(allow_null=True, help_text="Of the call; null for a question.")
    schema = serializers.JSONField(allow_null=True, help_text="JSON Schema of the answer; null: any JSON.")
    text = serializers.CharField(help_text="The question, or why a person is asked.")
    expires_at = serializers.DateTimeField()


class RunListSerializer(serializers.ListSerializer):
    """Reads for all runs of a page at once the usage of chains, the pools of the workers, and what they wait for."""

    def to_representation(self, data: Any) -> Any:
        runs = list(data)
        self.child.usages = totals.of_all(runs)
        self.child.waits = pending.of(runs)
        self.child.served = Worker.objects.alive().served() if any(map(workers.stands_long, runs)) else {}
        return super().to_representation(runs)


class RunSerializer(serializers.ModelSerializer):
    usages: dict[Any, totals.Usage] = {}
    served: dict[str, int] | None = None
    waits: dict[Any, list[dict[str, Any]]] | None = None
    id = serializers.UUIDField()
    agent = serializers.CharField(source="agent.name", default=None, allow_null=True)
    agent_owner = serializers.SerializerMethodField(help_text="Whose agent it is; null: the site's.")
    agent_version = serializers.IntegerField(
        source="version.number", default=None, allow_null=True, help_text="Null for a try of a draft (`trigger`)."
    )
    chain = serializers.CharField(source="chain_version.chain.name", default=None, allow_null=True)
    priority = serializers.ChoiceField(
        choices=Run.Priority.labels, source="get_priority_display", help_text="Who waits for it, or `batch`: nobody."
    )
    why_queued = serializers.SerializerMethodField(help_text="Why no worker takes it; empty: one will, or has.")
    session = serializers.UUIDField(source="session_id", allow_null=True)
    parent = serializers.UUIDField(source="parent_id", allow_null=True)
    root = serializers.UUIDField(source="root_id", allow_null=True)
    input = serializers.JSONField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    error = RunErrorSerializer(allow_null=True)
    options = serializers.SerializerMethodField(
        help_text="What the message asked for, merged with the definition; `asked` names what was asked; null: nothing."
    )
    usage = serializers.SerializerMethodField()
    counts = serializers.SerializerMethodField()
    pending = serializers.SerializerMethodField(help_text="What it waits for from a person or from a program.")
    urls = serializers.SerializerMethodField()

    class Meta:
        model = Run
        list_serializer_class = RunListSerializer
        fields = [
            "id", "status", "waiting_for", "pending", "pool", "priority", "why_queued", "agent", "agent_owner",
            "agent_version", "chain", "session", "parent", "root", "depth", "trigger", "created_at", "started_at",
            "finished_at", "deadline", "input", "options", "output", "error", "turns", "usage", "counts", "metadata",
            "urls",
        ]  # fmt: skip

    def get_agent_owner(self, run: Run) -> str | None:
        """Without a query for one's own agents in the answer to a message."""
        if run.agent is None or run.agent.owner_id is None:
            return None
        is_own = run.agent.owner_id == run.principal_id and Run.principal.is_cached(run)
        return run.principal.get_username() if is_own else run.agent.owner.get_username()

    def get_why_queued(self, run: Run) -> str:
        return workers.why_queued(run, self.served)

    @extend_schema_field(PendingInputSerializer(many=True))
    def get_pending(self, run: Run) -> list[dict[str, Any]]:
        return (pending.of([run]) if self.waits is None else self.waits).get(run.pk, [])

    @extend_schema_field({"type": ["object", "null"], "additionalProperties": True})
    def get_options(self, run: Run) -> dict[str, Any] | None:
        return options.as_json(run)

    def get_usage(self, run: Run) -> UsageSerializer:
        return (self.usages.get(run.pk) or totals.of(run)).as_json()  # type: ignore[return-value]

    def get_counts(self, run: Run) -> CountsSerializer:
        return endings.counts_of(run)  # type: ignore[return-value]

    def get_urls(self, run: Run) -> RunUrlsSerializer:
        return urls_of(run)  # type: ignore[return-value]


def urls_of(run: Run) -> dict[str, str]:
    base = reverse("run-detail", args=[run.pk])
    return {
        "self": base,
        "events": f"{base}/events",
        "stream": f"{base}/stream",
        "cancel": f"{base}/cancel",
        "page": f"/runs/{run.pk}/",
    }


class ReplySerializer(serializers.Serializer):
    role = serializers.CharField()
    content = PartSerializer(many=True)
    text = serializers.CharField()
    untrusted = serializers.BooleanField(help_text="Untrusted content had been read before it was written.")


class CandidateSerializer(serializers.Serializer):
    agent = serializers.CharField()
    score = serializers.FloatField()
    reason = serializers.CharField(allow_blank=True)


class RouteSerializer(serializers.Serializer):
    agent = serializers.CharField(allow_null=True)
    method = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    candidates = CandidateSerializer(many=True)


class AnswerSerializer(serializers.Serializer):
    """200: the run has ended. 202: it is queued, in progress or waiting; `reply` is null."""

    run = RunSerializer()
    session = serializers.UUIDField()
    reply = ReplySerializer(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    usage = UsageSerializer()
    route = RouteSerializer(required=False)


class EventSerializer(serializers.ModelSerializer):
    class Meta:
        model = RunEvent
        fields = ["seq", "type", "at", "data"]

    def to_representation(self, event: RunEvent) -> dict[str, Any]:
        return {key: value for key, value in events.as_json(event).items() if key != "run"}


class EventPageSerializer(serializers.Serializer):
    results = EventSerializer(many=True)
    next = serializers.URLField(allow_null=True, help_text="Address of later events; null if there are none yet.")


class ToolCallSerializer(serializers.ModelSerializer):
    parent_call = serializers.UUIDField(source="parent_call_id", allow_null=True)
    result = serializers.JSONField(allow_null=True)
    error = serializers.JSONField(allow_null=True)

    class Meta:
        model = ToolCallRecord
        fields = [
            "id", "name", "kind", "effect", "arguments", "turn", "parent_call", "attempt", "outcome", "waiting_for",
            "result", "error", "printed", "untrusted", "details", "started_at", "finished_at", "wall_ms",
        ]  # fmt: skip


class SessionSerializer(KnownFields, serializers.ModelSerializer):
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


class ApprovalSerializer(serializers.ModelSerializer):
    run = serializers.UUIDField(source="run_id")
    call = serializers.UUIDField(source="call_id", allow_null=True)
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)

    class Meta:
        model = Approval
        fields = [
            "id", "run", "call", "tool", "effect", "reason", "arguments", "findings", "edited_arguments", "decides",
            "not_starter", "expires_at", "default", "status", "decided_by", "decided_at", "note", "created_at",
        ]  # fmt: skip


class DecisionSerializer(StrictSerializer):
    decision = serializers.ChoiceField(choices=["approve", "deny"])
    arguments = serializers.DictField(required=False, allow_null=True)
    note = serializers.CharField(required=False, allow_blank=True, max_length=500)


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
    code = serializers.SlugField(max_length=64, default="tool_failed")
    message = Text(max_length=10_000)


class InputAnswerSerializer(StrictSerializer):
    """One of the three: the answer, a failure of the tool, or the refusal to answer."""

    value = serializers.JSONField(required=False, allow_null=True)
    error = InputFailureSerializer(required=False)
    decline = serializers.BooleanField(required=False)

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        given = [name for name in ("value", "error", "decline") if name in data and data[name] is not False]
        if len(given) != 1:
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
        if isinstance(data, dict) and isinstance(data.get("error"), str):
            data = {**data, "error": {"message": data["error"]}}
        return super().to_internal_value(data)

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if len(data) != 1:
            raise serializers.ValidationError("Send one of: result, answer, error.")
        return data


class ResumeSerializer(StrictSerializer):
    inputs = serializers.DictField(
        child=ResumeAnswerSerializer(), allow_empty=False, help_text="By the ids in the run's `pending`."
    )
