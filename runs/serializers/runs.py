"""Runs, their events, tool calls and answers as JSON."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from runs.calls import pending
from runs.events import record as events
from runs.events import waiting
from runs.intake import options
from runs.models import Message, Run, RunEvent, ToolCallRecord, Worker
from runs.models.figures import totals
from runs.models.session import FINISH
from runs.queue import endings, workers

from .messages import PartSerializer


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


class ReplySerializer(serializers.Serializer):
    role = serializers.CharField()
    content = PartSerializer(many=True)
    text = serializers.CharField()
    untrusted = serializers.BooleanField(help_text="Untrusted content had been read before it was written.")

    finish = serializers.ChoiceField(
        choices=["stop", "length", "content_filter"],
        help_text="Why it ended; `length` and `content_filter`: before the model had said all.",
    )

    def get_attribute(self, run: Run) -> Any:
        """Set by `with_reply`; other runs leave it out."""
        if not hasattr(run, "reply"):
            raise serializers.SkipField
        return run.reply


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
        choices=Run.Priority.labels, source="priority_word", help_text="Who waits for it, or `batch`: nobody."
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
    reply = ReplySerializer(
        required=False, allow_null=True,
        help_text="Where one run is read: what the agent answered; null until the run has ended, and of a chain.",
    )  # fmt: skip

    class Meta:
        model = Run
        list_serializer_class = RunListSerializer
        fields = [
            "id", "status", "waiting_for", "pending", "pool", "priority", "why_queued", "agent", "agent_owner",
            "agent_version", "chain", "session", "parent", "root", "depth", "trigger", "created_at", "started_at",
            "finished_at", "deadline", "input", "options", "output", "error", "turns", "usage", "counts", "metadata",
            "urls", "reply",
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


def with_reply(run: Run) -> Run:
    run.reply = reply_of(run)  # type: ignore[attr-defined]
    return run


def reply_of(run: Run) -> dict[str, Any] | None:
    """From the run's last event, or from its conversation if its events were deleted (`manage.py prune`)."""
    if run.finished_at is None:
        return None
    if ended := waiting.read_end(run.pk):
        return ended["reply"]
    message = Message.objects.filter(run=run, role=Message.Role.ASSISTANT).order_by("seq").last()
    if message is None:
        return None
    return endings.reply_json(message.text, message.untrusted, message.metadata.get(FINISH, ""))


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
    """200: the run has ended. 202: it was accepted; `reply` is null until it has ended."""

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
