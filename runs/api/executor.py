"""What a program may do that holds only the claim of one run: `Authorization: Bearer mc_…`.

It needs no API key and reaches nothing but this run, for as long as the claim holds it.
"""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.http import strict, viewsets
from agents.http.authentication import NotRecognised
from agents.http.viewsets import read_body
from runs.models import Artifact, Run, ToolCallRecord
from runs.serializers.runs import RunSerializer, ToolCallSerializer
from runs.worker import external_calls

from . import external
from .files import ArtifactSerializer, FileSerializer


class ClaimAuthentication(BaseAuthentication):
    """The request acts for the run's person, on this run alone. `request.auth` is the run."""

    def authenticate(self, request: Any) -> tuple[Any, Run]:
        words = get_authorization_header(request).decode("latin-1").split()
        run = None
        if len(words) == 2 and words[0].lower() == "bearer":
            run = external_calls.find_claimed_run(words[1])
        if run is None:
            raise NotRecognised(
                "This claim holds no run: it was lost, its run has ended, or it never existed.",
                hint="Stop the work, and claim a run with an API key.",
            )
        return run.principal, run

    def authenticate_header(self, request: Any) -> str:
        return 'Bearer realm="muster"'


class ClaimScheme(OpenApiAuthenticationExtension):
    target_class = "runs.api.executor.ClaimAuthentication"
    name = "claim"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A claim: `Authorization: Bearer mc_…`"}


class WorkSerializer(serializers.Serializer):
    lease_expires_at = serializers.DateTimeField()
    cancel_requested = serializers.BooleanField(help_text="Stop, and finish with status cancelled.")
    run = RunSerializer()
    messages = serializers.ListField(child=serializers.DictField(), help_text="The conversation, system prompt first.")
    output_schema = serializers.JSONField(allow_null=True)


class OfferedToolSerializer(serializers.Serializer):
    name = serializers.CharField()
    description = serializers.CharField()
    input_schema = serializers.JSONField()
    effect = serializers.CharField()
    mode = serializers.ChoiceField(["allow", "ask"], help_text="ask: a person is asked before each call.")


class OfferedToolsSerializer(serializers.Serializer):
    results = OfferedToolSerializer(many=True)
    next = serializers.URLField(allow_null=True)


class CallSerializer(strict.StrictSerializer):
    id = strict.Text(max_length=128, help_text="Your own. A repeated request finds the call that was made under it.")
    tool = strict.Text(max_length=64)
    arguments = strict.ObjectField(required=False)


# The claim is in the header.
class OwnHeartbeatSerializer(external.HeartbeatSerializer):
    claim = None


class OwnFinishSerializer(external.FinishSerializer):
    claim = None


CALL = OpenApiExample(
    "A call", request_only=True, value={"id": "call-1", "tool": "calculate", "arguments": {"expression": "2 + 2"}}
)


class ExecutorViewSet(viewsets.GenericViewSet):
    """The run of the claim, its tools, calls and files."""

    scope = "runs"
    # The id of a call is its idempotency key.
    keeps_keys = ("call",)
    # The path names no run: `request.auth` is the only one.
    authentication_classes = [ClaimAuthentication]
    queryset = Run.objects.none()
    serializer_class = WorkSerializer
    page_ordering = "id"
    filter_backends: list[Any] = []

    @extend_schema(responses=WorkSerializer)
    @action(detail=False, pagination_class=None)
    def work(self, request: Any) -> Response:
        """The run and its conversation, as in the answer to the claim."""
        work = external.describe_work(request.auth)
        return Response(WorkSerializer(work).data)

    @extend_schema(responses=OfferedToolsSerializer)
    @action(detail=False, pagination_class=None)
    def tools(self, request: Any) -> Response:
        """The tools that the run's policy allows now, all in one page."""
        offered: list[dict[str, Any]] = []
        for tool, mode in external_calls.tools(request.auth):
            offered.append(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                    "effect": tool.effect,
                    "mode": mode,
                }
            )
        return Response(OfferedToolsSerializer({"results": offered, "next": None}).data)

    @extend_schema(responses=ToolCallSerializer(many=True))
    def calls(self, request: Any) -> Response:
        """The calls of this run so far, in order, those of an earlier executor included."""
        calls = external_calls.query_program_calls(request.auth)
        page = self.paginate_queryset(calls)
        return self.get_paginated_response(ToolCallSerializer(page, many=True).data)

    @extend_schema(
        request=CallSerializer, responses={200: ToolCallSerializer, 202: ToolCallSerializer}, examples=[CALL]
    )
    def call(self, request: Any) -> Response:
        """Call a tool. 200 with the outcome; 202 if the call waits for a person, a device or another run: ask for it
        again.
        """
        body = read_body(CallSerializer, request)
        record = external_calls.make_program_call(
            request.auth, id=body["id"], tool=body["tool"], arguments=body.get("arguments") or {}
        )
        return answer_with_call(record)

    @extend_schema(responses={200: ToolCallSerializer, 202: ToolCallSerializer})
    @action(detail=False, pagination_class=None)
    def one_call(self, request: Any, id: Any = None) -> Response:
        """One call. It is continued if what it waits for has come."""
        record = external_calls.find_program_call(request.auth, id)
        return answer_with_call(record)

    @extend_schema(responses=ArtifactSerializer(many=True))
    def artifacts(self, request: Any) -> Response:
        """The files that this run has made."""
        artifacts = Artifact.objects.filter(run=request.auth).select_related("file")
        page = self.paginate_queryset(artifacts)
        return self.get_paginated_response(ArtifactSerializer(page, many=True).data)

    @extend_schema(request=FileSerializer, responses={201: ArtifactSerializer})
    def add_artifact(self, request: Any) -> Response:
        """Leave a file with the run. It belongs to the run's person and counts as untrusted."""
        body = read_body(FileSerializer, request)
        artifact = external_calls.add_program_file(
            request.auth, name=body["name"], content=body["content"], declared=body["media_type"]
        )
        return Response(ArtifactSerializer(artifact).data, status=201)

    @extend_schema(request=OwnHeartbeatSerializer, responses={200: external.BeatSerializer})
    def heartbeat(self, request: Any) -> Response:
        """Keep the claim and report progress. `cancel_requested` tells you to stop."""
        body = read_body(OwnHeartbeatSerializer, request)
        claim = read_claim_token(request)
        return Response(external.answer_heartbeat(request.auth, claim=claim, **body))

    @extend_schema(request=OwnFinishSerializer, responses={200: RunSerializer})
    def finish(self, request: Any) -> Response:
        """Submit the result. Calls that are still open are closed; the claim ends."""
        body = read_body(OwnFinishSerializer, request)
        claim = read_claim_token(request)
        return Response(external.answer_external_result(request.auth, claim=claim, **body))


def read_claim_token(request: Any) -> str:
    # ClaimAuthentication has read the same header: it has two words.
    header = get_authorization_header(request).decode("latin-1")
    return header.split()[1]


def answer_with_call(record: ToolCallRecord) -> Response:
    status = 200 if record.outcome else 202
    return Response(ToolCallSerializer(record).data, status=status)
