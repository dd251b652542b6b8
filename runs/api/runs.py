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
from runs.queue import emptying, endings
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
    # The same scope as for POST inputs/{id}.
    scopes = {"resume": "messages:write"}
    # Only `stream` has events; a client that asks for them elsewhere gets JSON.
    content_negotiation_class = StreamOrJson
    serializer_class = RunSerializer
    filterset_class = RunFilter
    search_fields = ("session__title", "agent__name", "chain_version__chain__name")
    orderings = ("created_at", "cost")
    parameters = {"events": ("after", "limit"), "stream": ("after",)}
    bodiless = ("empty",)
    queryset = Run.objects.none()

    def get_queryset(self) -> QuerySet[Run]:
        runs = Run.objects.visible_to(self.request.user).select_related(*RUN_JOINS)
        if self.action == "list":
            return runs.only(*RUN_SHOWN)
        return runs

    def retrieve(self, request: Any, pk: Any = None) -> Response:
        """One run, with its reply once it has ended."""
        run = with_reply(self.get_object())
        return Response(RunSerializer(run).data)

    @extend_schema(
        parameters=[AFTER, OpenApiParameter("limit", int, default=500, description="At most 500.")],
        responses=EventPageSerializer,
    )
    @action(detail=True, pagination_class=None)
    def events(self, request: Any, pk: Any = None) -> Response:
        """Stored events after a number; `next` is the address of the following page."""
        run = self.get_object()
        after = read_stream_cursor(request)
        size = Cursor.max_page_size
        if "limit" in request.query_params:
            size = Cursor().get_page_size(request)
        events = RunEvent.objects.filter(run=run, seq__gt=after).order_by("seq")
        rows, has_more = read_page(events, size)
        url = None
        if has_more:
            url = replace_query_param(request.build_absolute_uri(), "after", rows[-1].seq)
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
        run = self.get_object()
        after = read_stream_cursor(request)
        if run.finished_at and after >= run.last_event:
            return Response(status=204)
        with count_user_stream(request.user) as respond:
            return respond(event_stream(run, after, request))

    @extend_schema(request=CancelSerializer, responses={200: RunSerializer})
    def cancel(self, request: Any, pk: Any = None) -> Response:
        """Stop the run and its children. 409 if it has ended."""
        # The body may be missing altogether.
        body = CancelSerializer(data=request.data or {})
        body.is_valid(raise_exception=True)
        reason = body.validated_data.get("reason", "")
        run = endings.cancel_run(self.get_object(), by=request.user, reason=reason)
        return Response(RunSerializer(run).data)

    @extend_schema(request=None, responses={200: RunSerializer})
    def empty(self, request: Any, pk: Any = None) -> Response:
        """Delete what an ended run and those below it hold: events, inputs, outputs, calls and results. They no longer
        count in your quota. Status, times and costs stay. 409 if it has not ended.
        """
        run = self.get_object()
        emptying.empty_run(run)
        self.audit("emptied", run)
        return Response(RunSerializer(self.get_queryset().get(pk=run.pk)).data)

    @extend_schema(operation_id="runs_resume", request=ResumeSerializer, responses={202: RunSerializer})
    def resume(self, request: Any, pk: Any = None) -> Response:
        """Answer what the run waits for; it continues. All answers are taken, or none.

        Each is taken once: 409 if one was answered before, has expired or its run has ended. A key
        needs the scope `approvals:decide` to answer an approval.
        """
        run = self.get_object()
        inputs = read_body(ResumeSerializer, request)["inputs"]
        answers = {as_id(one): answer for one, answer in inputs.items()}
        requests, decided = pending.find_requests(run, answers, request.user)
        if decided:
            require_scope(request, DECIDE)
        with transaction.atomic():
            pending.send_answers(requests, decided, answers, by=request.user, source=client_address(request))
            self.audit("resumed", run, inputs=[str(one) for one in answers])
        fresh = self.get_queryset().get(pk=run.pk)
        location = build_run_urls(run)["self"]
        return Response(RunSerializer(fresh).data, status=202, headers={"Location": location})

    @extend_schema(responses=ToolCallSerializer(many=True), filters=False)
    def tool_calls(self, request: Any, pk: Any = None) -> Response:
        """Tool calls, in the order in which they were made."""
        calls = ToolCallRecord.objects.filter(run=self.get_object())
        return self.listed(calls, ToolCallSerializer)

    @extend_schema(responses=ArtifactSerializer(many=True), filters=False)
    def artifacts(self, request: Any, pk: Any = None) -> Response:
        """Files that this run made, and for the first run of a tree those of all runs below it, in order."""
        artifacts = Artifact.objects.shown(self.get_object(), request.user)
        return self.listed(artifacts, ArtifactSerializer)

    @extend_schema(responses=RunSerializer(many=True), filters=False)
    def children(self, request: Any, pk: Any = None) -> Response:
        """Runs started by this run, in order."""
        children = self.get_object().children.select_related(*RUN_JOINS)
        return self.listed(children, RunSerializer)

    def listed(self, rows: QuerySet[Any], serializer: Any) -> Response:
        self.page_ordering = ("id",)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(serializer(page, many=True).data)


def as_id(text: str) -> UUID:
    """Raises NotFound."""
    try:
        return UUID(text)
    except ValueError:
        raise pending.unknown([text])
