"""The API for external executors (prepare, claim, heartbeat, finish), and the list of workers."""

from decimal import Decimal
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import mixins, serializers
from rest_framework.response import Response

from agents.exceptions import Invalid
from agents.http import strict, viewsets
from agents.http.credential_checks import CredentialCheck
from agents.http.idempotency import read_key
from agents.http.resources import location_header
from agents.http.viewsets import APIView, ByName, read_body
from agents.models import Agent
from runs.calls import model_messages
from runs.intake import context, options
from runs.intake import messages as intake
from runs.models import Run, Worker
from runs.models.figures import track_records
from runs.queue import workers
from runs.serializers.messages import OptionsSerializer
from runs.serializers.runs import RunSerializer, write_id
from runs.worker import external_runs

from .messages import RUN_JOINS, read_message_options
from .runs import RunViewSet


class ContextSerializer(strict.StrictSerializer):
    source = strict.Choice(list(context.READERS))  # type: ignore[assignment]
    id = strict.Text(max_length=64, help_text="Of one of your sessions or files.")
    last = strict.Whole(required=False, min_value=1, max_value=200, help_text="Messages of a session; default: 10.")


# How an executor may end a run. That its time is over is the server's to say.
ENDINGS = [(word, word) for word in ("succeeded", "partial", "failed", "cancelled")]


class PrepareSerializer(OptionsSerializer):
    agent = strict.Text(help_text="The agent whose instructions and schemas the run uses.")
    message = strict.Text(max_length=100_000)
    input = serializers.JSONField(required=False)
    metadata = strict.ObjectField(required=False)
    timeout = strict.Number(required=False, min_value=1, max_value=30 * 86400, help_text="Seconds; default: a week.")
    session = serializers.UUIDField(
        required=False, allow_null=True, help_text="Continue this session: the program gets its conversation."
    )
    device = serializers.UUIDField(required=False, allow_null=True, help_text="The device of the run's device tools.")
    context = ContextSerializer(  # type: ignore[assignment, call-arg]
        many=True, required=False, max_length=10, help_text="Texts for its instructions."
    )


class ClaimSerializer(strict.StrictSerializer):
    executor = strict.Text(max_length=100, help_text="A name for the executor.")
    lease = strict.Number(required=False, min_value=1, max_value=3600, help_text="Seconds between heartbeats.")


class HeartbeatSerializer(strict.StrictSerializer):
    claim = strict.Text(max_length=200)
    lease = strict.Number(required=False, min_value=1, max_value=3600)
    note = strict.Text(required=False, max_length=1000, help_text="Becomes a run.progress event.")
    fraction = strict.Number(required=False, min_value=0, max_value=1, help_text="How much of the work is done.")


class SpentSerializer(strict.StrictSerializer):
    input_tokens = strict.Whole(required=False, min_value=0, max_value=2**31 - 1)
    output_tokens = strict.Whole(required=False, min_value=0, max_value=2**31 - 1)
    cost = serializers.DecimalField(
        required=False, max_digits=12, decimal_places=6, min_value=0, max_value=Decimal(100_000)
    )


class ErrorSerializer(strict.StrictSerializer):
    code = strict.Text(max_length=64)
    message = strict.Text(max_length=2000)


class FinishSerializer(strict.StrictSerializer):
    claim = strict.Text(max_length=200)
    status = strict.Choice(ENDINGS)
    reply = strict.Text(required=False, max_length=1_000_000)
    output = serializers.JSONField(required=False)
    error = ErrorSerializer(required=False)
    usage = SpentSerializer(required=False)


class ClaimedSerializer(serializers.Serializer):
    claim = serializers.CharField(
        help_text="Shown once. Send it with each heartbeat, or as the bearer token of /api/v1/executor/."
    )
    lease_expires_at = serializers.DateTimeField()
    run = RunSerializer()
    messages = serializers.ListField(child=serializers.DictField(), help_text="The conversation, system prompt first.")
    output_schema = serializers.JSONField(allow_null=True)


class BeatSerializer(serializers.Serializer):
    lease_expires_at = serializers.DateTimeField()
    cancel_requested = serializers.BooleanField(help_text="Stop, and finish with status cancelled.")


class PreparedRunViewSet(RunViewSet):
    """The list of runs, and the endpoint that prepares runs for external executors."""

    keeps_keys = ("prepare",)

    @extend_schema(
        operation_id="runs_prepare",
        request=PrepareSerializer,
        responses={201: RunSerializer, 200: RunSerializer},
        examples=[OpenApiExample("prepare", {"agent": "helper", "message": "Tidy the repository"}, request_only=True)],
    )
    def prepare(self, request: Any) -> Response:
        """Prepare a run for an external executor; it waits until an executor claims it."""
        body = read_body(PrepareSerializer, request)
        acceptance = intake.accept_message(
            user=request.user,
            text=body["message"],
            agent=body["agent"],
            input=body.get("input"),
            metadata=body.get("metadata"),
            session=write_id(body.get("session")),
            device=write_id(body.get("device")),
            idempotency_key=read_key(request),
            trigger=Run.Trigger.EXTERNAL,
            asked=read_message_options(body),
            context=body.get("context"),
        )
        status = 200
        if acceptance.is_new:
            status = 201
            external_runs.set_deadline(acceptance.run, body.get("timeout"))
        headers = location_header(request, acceptance.run.pk)
        return Response(RunSerializer(acceptance.run).data, status=status, headers=headers)


class ExternalViewSet(viewsets.GenericViewSet):
    scope = "runs"
    # Its answer contains the token, which is not stored.
    secret_answers = ("claim",)
    queryset = Run.objects.none()
    serializer_class = RunSerializer

    def get_queryset(self) -> QuerySet[Run]:
        runs = Run.objects.visible_to(self.request.user)
        return runs.select_related(*RUN_JOINS)

    @extend_schema(request=ClaimSerializer, responses={200: ClaimedSerializer})
    def claim(self, request: Any, pk: Any = None) -> Response:
        """Claim a prepared run. 409 if it is already claimed, or is not for external executors."""
        body = read_body(ClaimSerializer, request)
        standing = CredentialCheck.of(request.auth, getattr(request, "session", None))
        claim = external_runs.claim_external_run(
            self.get_object(), executor=body["executor"], lease_s=body.get("lease"), standing=standing
        )
        answer = {"claim": claim.token, **describe_work(claim.run)}
        return Response(ClaimedSerializer(answer).data)

    @extend_schema(request=HeartbeatSerializer, responses={200: BeatSerializer})
    def heartbeat(self, request: Any, pk: Any = None) -> Response:
        """Keep the claim alive. 409 if the claim was lost."""
        body = read_body(HeartbeatSerializer, request)
        return Response(answer_heartbeat(self.get_object(), **body))

    @extend_schema(request=FinishSerializer, responses={200: RunSerializer})
    def finish(self, request: Any, pk: Any = None) -> Response:
        """Submit the result. 409 if the claim was lost, 422 if the output violates the agent's
        schema.
        """
        body = read_body(FinishSerializer, request)
        return Response(answer_external_result(self.get_object(), **body))


def describe_work(run: Run) -> dict[str, Any]:
    """What an executor needs to begin."""
    messages: list[dict[str, Any]] = []
    output_schema = None
    # The run of a chain has no agent's version.
    if run.version:
        spec = options.apply_options(run, run.version.read_spec())
        messages = model_messages.as_told(model_messages.opening(run, spec))
        output_schema = spec.output_schema
    return {
        "lease_expires_at": run.lease_expires_at,
        "cancel_requested": run.cancel_requested_at is not None,
        "run": run,
        "messages": messages,
        "output_schema": output_schema,
    }


def answer_heartbeat(run: Run, *, claim: str, lease: float | None = None, **progress: Any) -> dict[str, Any]:
    run = external_runs.heartbeat(run, claim, lease_s=lease, **progress)
    answer = {"lease_expires_at": run.lease_expires_at, "cancel_requested": run.cancel_requested_at is not None}
    return BeatSerializer(answer).data


def answer_external_result(run: Run, *, claim: str, **result: Any) -> dict[str, Any]:
    ended = external_runs.submit_external_result(run, claim, **result)
    return RunSerializer(ended).data


class LoadedSerializer(serializers.Serializer):
    agent = serializers.CharField()
    version = serializers.IntegerField()
    hash = serializers.CharField()


class WorkerSerializer(serializers.ModelSerializer):
    pools = serializers.ListField(child=serializers.CharField(), help_text="It takes runs of these pools.")
    loaded = serializers.SerializerMethodField(help_text="The loaded agents that you can see.")
    others = serializers.SerializerMethodField(
        help_text="Number of other loaded agents: older versions, or agents of other users."
    )

    class Meta:
        model = Worker
        fields = ["name", "started_at", "seen_at", "runs", "pools", "release", "format", "loaded", "others"]

    @extend_schema_field(LoadedSerializer(many=True))
    def get_loaded(self, worker: Worker) -> list[dict[str, Any]]:
        agents = self.context["agents"]
        return [agents[key] for key in worker.loaded if key in agents]

    def get_others(self, worker: Worker) -> int:
        visible_agents = self.context["agents"]
        others = [key for key in worker.loaded if key not in visible_agents]
        return len(others)


class WorkerViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """Worker processes seen within the last hour."""

    scope = "workers"
    serializer_class = WorkerSerializer
    page_ordering = "name"
    queryset = Worker.objects.all()

    def get_serializer_context(self) -> dict[str, Any]:
        agents = workers.known_hashes(self.request.user)
        return {**super().get_serializer_context(), "agents": agents}


class FiguresView(ByName, APIView):
    scope = "agents"
    parameters = {"get": ("window",)}

    @extend_schema(
        operation_id="agents_figures",
        parameters=[OpenApiParameter("window", str, enum=list(track_records.WINDOWS), default="week")],
        responses={200: dict},
    )
    def get(self, request: Any, name: str) -> Response:
        """This agent's track record for your runs: `?window=hour|day|week|month`, in total and over
        time.
        """
        window = request.query_params.get("window", "week")
        if window not in track_records.WINDOWS:
            raise Invalid(f"“{window}” is not a valid window.", hint=f"Use one of {', '.join(track_records.WINDOWS)}.")
        agent = self.named(Agent.objects.all())
        runs = Run.objects.visible_to(request.user).filter(agent=agent)
        total, parts = track_records.over_time(runs, window)
        series: list[dict[str, Any]] = []
        for at, figure in parts:
            series.append({"at": at, **track_records.serialize_track_record(figure)})
        figures = track_records.serialize_track_record(total)
        return Response({"agent": agent.name, "window": window, **figures, "series": series})
