"""Runs over HTTP: list, read, follow, cancel."""

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from agents.http import viewsets
from agents.http.authentication import require_scope
from agents.http.pagination import Cursor, read_page
from agents.http.throttles import client_address
from agents.http.viewsets import Audited, read_body
from agents.models.key import DECIDE
from runs.calls import pending
from runs.models import Artifact, Run, RunEvent, ToolCallRecord
from runs.queue import endings
from runs.serializers.decisions import CancelSerializer, ResumeSerializer
from runs.serializers.runs import EventPageSerializer, RunSerializer, ToolCallSerializer, build_run_urls, with_reply

from .files import ArtifactSerializer
from .filters import RunFilter
from .messages import (
    AFTER,
    LAST_EVENT,
    RUN_JOINS,
    SSE,
    StreamOrJson,
    count_user_stream,
    event_stream,
    read_stream_cursor,
)

# What a list shows of each run and of those rows: whole versions are most of what would be read.
RUN_SHOWN = (
    "status", "waiting_for", "principal", "agent__name", "agent__owner__username", "version__number",
    "chain_version__chain__name", "session_id", "parent_id", "root_id", "depth", "trigger", "created_at", "started_at",
    "finished_at", "deadline", "input", "options", "output", "error", "turns", "input_tokens", "output_tokens", "cost",
    "processed", "created", "updated", "metadata", "pool", "priority", "place", "queued_at", "needs",
)  # fmt: skip


class RunViewSet(Audited, mixins.ListModelMixin, viewsets.GenericViewSet):
    scope = "runs"
    scopes = {"resume": "messages:write"}  # as for POST inputs/{id}
    content_negotiation_class = StreamOrJson
    serializer_class = RunSerializer
    filterset_class = RunFilter
    search_fields = ("session__title", "agent__name", "chain_version__chain__name")
    orderings = ("created_at", "cost")
    parameters = {"events": ("after", "limit"), "stream": ("after",)}
    queryset = Run.objects.none()

    def get_queryset(self) -> QuerySet[Run]:
        runs = Run.objects.visible_to(self.request.user).select_related(*RUN_JOINS)
        return runs.only(*RUN_SHOWN) if self.action == "list" else runs

    def retrieve(self, request: Any, pk: Any = None) -> Response:
        """One run, with its reply once it has ended."""
        return Response(RunSerializer(with_reply(self.get_object())).data)

    @extend_schema(
        parameters=[AFTER, OpenApiParameter("limit", int, default=500, description="At most 500.")],
        responses=EventPageSerializer,
    )
    @action(detail=True, pagination_class=None)
    def events(self, request: Any, pk: Any = None) -> Response:
        """Stored events after a number; `next` is the address of the following page."""
        run, after = self.get_object(), read_stream_cursor(request)
        size = Cursor().get_page_size(request) if "limit" in request.query_params else Cursor.max_page_size
        rows, has_more = read_page(RunEvent.objects.filter(run=run, seq__gt=after).order_by("seq"), size)
        url = replace_query_param(request.build_absolute_uri(), "after", rows[-1].seq) if has_more else None
        return Response(EventPageSerializer({"results": rows, "next": url}).data)

    @extend_schema(
        parameters=[AFTER, LAST_EVENT],
        responses={
            (200, "text/event-stream"): SSE,
            204: OpenApiResponse(description="You have every event; browsers do not reconnect after this."),
        },
    )
    @action(detail=True, pagination_class=None)
    def stream(self, request: Any, pk: Any = None) -> StreamingHttpResponse | Response:
        """Events as they happen, starting at a cursor, until run.finished."""
        run, after = self.get_object(), read_stream_cursor(request)
        if run.finished_at and after >= run.last_event:
            return Response(status=204)
        with count_user_stream(request.user) as respond:
            return respond(event_stream(run, after, request))

    @extend_schema(request=CancelSerializer, responses={200: RunSerializer})
    def cancel(self, request: Any, pk: Any = None) -> Response:
        """Stop the run and its children. 409 if it has ended."""
        body = CancelSerializer(data=request.data or {})
        body.is_valid(raise_exception=True)
        run = endings.cancel_run(self.get_object(), by=request.user, reason=body.validated_data.get("reason", ""))
        return Response(RunSerializer(run).data)

    @extend_schema(operation_id="runs_resume", request=ResumeSerializer, responses={202: RunSerializer})
    def resume(self, request: Any, pk: Any = None) -> Response:
        """Answer what the run waits for; it continues. All answers are taken, or none.

        Each is taken once: 409 if one was answered before, has expired or its run has ended. A key
        needs the scope `approvals:decide` to answer an approval.
        """
        run, inputs = self.get_object(), read_body(ResumeSerializer, request)["inputs"]
        answers = {as_id(one): answer for one, answer in inputs.items()}
        requests, decided = pending.find_requests(run, answers, request.user)
        if decided:
            require_scope(request, DECIDE)
        with transaction.atomic():
            pending.send_answers(requests, decided, answers, by=request.user, source=client_address(request))
            self.audit("resumed", run, inputs=[str(one) for one in answers])
        fresh = self.get_queryset().get(pk=run.pk)
        return Response(RunSerializer(fresh).data, status=202, headers={"Location": build_run_urls(run)["self"]})

    @extend_schema(responses=ToolCallSerializer(many=True), filters=False)
    def tool_calls(self, request: Any, pk: Any = None) -> Response:
        """Tool calls, in the order in which they were made."""
        return self.listed(ToolCallRecord.objects.filter(run=self.get_object()), ToolCallSerializer)

    @extend_schema(responses=ArtifactSerializer(many=True), filters=False)
    def artifacts(self, request: Any, pk: Any = None) -> Response:
        """Files that this run made, and for the first run of a tree those of all runs below it, in order."""
        return self.listed(Artifact.objects.shown(self.get_object(), request.user), ArtifactSerializer)

    @extend_schema(responses=RunSerializer(many=True), filters=False)
    def children(self, request: Any, pk: Any = None) -> Response:
        """Runs started by this run, in order."""
        return self.listed(self.get_object().children.select_related(*RUN_JOINS), RunSerializer)

    def listed(self, rows: QuerySet[Any], serializer: Any) -> Response:
        self.page_ordering = ("id",)
        return self.get_paginated_response(serializer(self.paginate_queryset(rows), many=True).data)


def as_id(text: str) -> UUID:
    """Raises NotFound."""
    try:
        return UUID(text)
    except ValueError:
        raise pending.unknown([text])
