"""Runs, their events, tool calls and answers as JSON."""

from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from plumbing.site_paths import add_site_prefix, reverse_without_prefix
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


class RunListSerializer(serializers.ListSerializer):
    """Reads for all runs of a page at once the usage of chains, the pools of the workers, and what they wait for."""

    def to_representation(self, data: Any) -> Any:
        runs = list(data)
        self.child.usages = totals.of_all(runs)
        self.child.waits = pending.list_open_requests(runs)
        self.child.served = {}
        # The pools of the workers only say why a run stands for long: most pages need no look at them.
        if any(map(workers.stands_long, runs)):
            self.child.served = Worker.objects.alive().served()
        return super().to_representation(runs)


class RunSerializer(serializers.ModelSerializer):
    # The declared fields describe the answer; `to_representation` writes it. A list sets these three.
    usages: dict[Any, totals.Usage] = {}
    served: dict[str, int] | None = None
    waits: dict[Any, list[dict[str, Any]]] | None = None
    id = serializers.UUIDField()
    agent = serializers.CharField(default=None, allow_null=True)
    agent_owner = serializers.CharField(
        read_only=True, allow_null=True, help_text="Whose agent it is; null: the site's."
    )
    agent_version = serializers.IntegerField(
        default=None, allow_null=True, help_text="Null for a try of a draft (`trigger`)."
    )
    chain = serializers.CharField(default=None, allow_null=True)
    priority = serializers.ChoiceField(choices=Run.Priority.labels, help_text="Who waits for it, or `batch`: nobody.")
    why_queued = serializers.CharField(read_only=True, help_text="Why no worker takes it; empty: one will, or has.")
    session = serializers.UUIDField(allow_null=True)
    parent = serializers.UUIDField(allow_null=True)
    root = serializers.UUIDField(allow_null=True)
    input = serializers.JSONField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    error = RunErrorSerializer(allow_null=True)
    options = serializers.DictField(
        read_only=True, allow_null=True,
        help_text=
        "What the message asked for, merged with the definition; `asked` names what was asked; null: nothing.",
    )  # fmt: skip
    usage = UsageSerializer(read_only=True)
    counts = CountsSerializer(read_only=True)
    pending = PendingInputSerializer(
        many=True, read_only=True, help_text="What it waits for from a person or from a program."
    )
    urls = RunUrlsSerializer(read_only=True)
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

    def to_representation(self, run: Run) -> dict[str, Any]:
        """Each answer to a message has one, and a page fifty: thirty fields that each look for their value took five
        times as long.
        """
        # A list has read these for all of its runs.
        waits = pending.list_open_requests([run]) if self.waits is None else self.waits
        usage = self.usages.get(run.pk) or totals.total_usage(run)
        agent = version = chain = error = None
        if run.agent:
            agent = run.agent.name
        if run.version:
            version = run.version.number
        if run.chain_version:
            chain = run.chain_version.chain.name
        if run.error is not None:
            error = self.fields["error"].to_representation(run.error)
        shown = {
            "id": str(run.pk),
            "status": str(run.status),
            "waiting_for": run.waiting_for,
            "pending": waits.get(run.pk, []),
            "pool": run.pool,
            "priority": run.priority_word,
            "why_queued": workers.why_queued(run, self.served),
            "agent": agent,
            "agent_owner": owner_of_agent(run),
            "agent_version": version,
            "chain": chain,
            "session": write_id(run.session_id),
            "parent": write_id(run.parent_id),
            "root": write_id(run.root_id),
            "depth": run.depth,
            "trigger": str(run.trigger),
            "created_at": write_time(run.created_at),
            "started_at": write_time(run.started_at),
            "finished_at": write_time(run.finished_at),
            "deadline": write_time(run.deadline),
            "input": run.input,
            "options": options.serialize_options(run),
            "output": run.output,
            "error": error,
            "turns": run.turns,
            "usage": usage.as_json(),
            "counts": endings.read_run_counts(run),
            "metadata": run.metadata,
            "urls": build_run_urls(run),
        }
        # Set by `with_reply`, where one run is read.
        if hasattr(run, "reply"):
            shown["reply"] = None if run.reply is None else self.fields["reply"].to_representation(run.reply)
        return shown


def owner_of_agent(run: Run) -> str | None:
    """Without a query for one's own agents in the answer to a message."""
    agent = run.agent
    if agent is None or agent.owner_id is None:
        return None
    if agent.owner_id == run.principal_id and Run.principal.is_cached(run):
        return run.principal.get_username()
    return agent.owner.get_username()


def write_id(id: Any) -> str | None:
    if not id:
        return None
    return str(id)


def write_time(moment: datetime | None) -> str | None:
    """As all other times of the API, in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def build_run_urls(run: Run) -> dict[str, str]:
    base = add_site_prefix(reverse_without_prefix("run-detail", run.pk))
    return {
        "self": base,
        "events": f"{base}/events",
        "stream": f"{base}/stream",
        "cancel": f"{base}/cancel",
        "page": add_site_prefix(f"/runs/{run.pk}/"),
    }


def with_reply(run: Run) -> Run:
    run.reply = find_run_reply(run)  # type: ignore[attr-defined]
    return run


def find_run_reply(run: Run) -> dict[str, Any] | None:
    """From the run's last event, or from its conversation if its events were deleted (`manage.py prune`)."""
    if run.finished_at is None:
        return None
    ended = waiting.read_end(run.pk)
    if ended:
        return ended["reply"]
    message = Message.objects.filter(run=run, role=Message.Role.ASSISTANT).order_by("seq").last()
    if message is None:
        return None
    finish = message.metadata.get(FINISH, "")
    return endings.reply_json(message.text, message.untrusted, finish)


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
        serialized = events.serialize_event(event)
        # The address of the page names the run.
        del serialized["run"]
        return serialized


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
