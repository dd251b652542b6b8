"""Runs over HTTP: list, read, follow, cancel."""

from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from agents.http.pagination import Cursor
from runs.lifecycle import endings
from runs.models import Artifact, Run, RunEvent, ToolCallRecord

from .files import ArtifactSerializer
from .filters import RunFilter
from .messages import AFTER, LAST_EVENT, RUN_JOINS, SSE, StreamOrJson, cursor_of, event_stream, stream_for
from .serializers import (
    CancelSerializer,
    EventPageSerializer,
    RunSerializer,
    ToolCallSerializer,
)

# What a list shows of each run and of those rows: whole versions are most of what would be read.
RUN_SHOWN = (
    "status", "waiting_for", "principal", "agent__name", "agent__owner__username", "version__number",
    "chain_version__chain__name", "session_id", "parent_id", "root_id", "depth", "trigger", "created_at", "started_at",
    "finished_at", "deadline", "input", "options", "output", "error", "turns", "input_tokens", "output_tokens", "cost",
    "processed", "created", "updated", "metadata", "pool", "priority", "place", "queued_at",
)  # fmt: skip


class RunViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet):
    scope = "runs"
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

    @extend_schema(
        parameters=[AFTER, OpenApiParameter("limit", int, default=500, description="At most 500.")],
        responses=EventPageSerializer,
    )
    @action(detail=True, pagination_class=None)
    def events(self, request: Any, pk: Any = None) -> Response:
        """Stored events after a number; `next` is the address of the following page."""
        run, after = self.get_object(), cursor_of(request)
        size = Cursor().get_page_size(request) if "limit" in request.query_params else Cursor.max_page_size
        rows = list(RunEvent.objects.filter(run=run, seq__gt=after).order_by("seq")[: size + 1])
        url = replace_query_param(request.build_absolute_uri(), "after", rows[size - 1].seq) if rows[size:] else None
        return Response(EventPageSerializer({"results": rows[:size], "next": url}).data)

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
        run, after = self.get_object(), cursor_of(request)
        if run.finished_at and after >= run.last_event:
            return Response(status=204)
        with stream_for(request.user) as respond:
            return respond(event_stream(run, after, request))

    @extend_schema(request=CancelSerializer, responses={200: RunSerializer})
    def cancel(self, request: Any, pk: Any = None) -> Response:
        """Stop the run and its children. 409 if it has ended."""
        body = CancelSerializer(data=request.data or {})
        body.is_valid(raise_exception=True)
        run = endings.cancel(self.get_object(), by=request.user, reason=body.validated_data.get("reason", ""))
        return Response(RunSerializer(run).data)

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
