"""Records kept on the server, over HTTP: list, search, create, edit, comment, approve, reject."""

from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound
from agents.http import viewsets
from agents.http.resources import version_seen
from agents.http.strict import OBJECT, without_echo
from agents.http.throttles import client_address
from agents.http.viewsets import read_body
from devices.models import Record

from . import review
from .filters import RecordFilter
from .serializers import CommentSerializer, ReasonSerializer, RecordChangeSerializer, RecordSerializer
from .shapes import COLLECTIONS, COMMENT, SHAPES, Shape

MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER,
    description="The ETag that was read, such as \"3\": 412 if the record has changed since.",
)  # fmt: skip
COLLECTION = OpenApiParameter("collection", str, OpenApiParameter.PATH, enum=list(COLLECTIONS))
CREATED = {"application/json": {"oneOf": [shape.create.input_schema for shape in SHAPES.values()]}}
CHANGED = {"application/json": {**OBJECT, "description": "Fields of the kind; what is not sent stays as it is."}}
TASK = OpenApiExample("A task", request_only=True, value={"title": "Pay the bill", "due_date": "2026-01-31"})
DONE = OpenApiExample("It is done", request_only=True, value={"state": "Completed"})
STALE = {412: OpenApiResponse(description="The record has changed since it was read.")}


class AllRecords(mixins.ListModelMixin, viewsets.GenericViewSet):
    """The person's own records; nobody else sees them."""

    scope = "records"
    queryset = Record.objects.none()
    serializer_class = RecordSerializer
    filterset_class = RecordFilter
    orderings = ("created_at", "updated_at")
    page_ordering: tuple[str, ...] = ("-id",)

    def get_queryset(self) -> QuerySet:
        return Record.objects.visible_to(self.request.user)

    def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Records of every kind; `waiting=true` lists what waits for a decision."""
        return super().list(request, *args, **kwargs)


class RecordViewSet(AllRecords):
    """Records of one kind, by id."""

    http_method_names = ["get", "post", "patch", "delete", "head", "options"]
    bodiless = ("approve",)

    @cached_property
    def kind(self) -> str:
        name = self.kwargs["collection"]
        if name not in COLLECTIONS:
            raise NotFound(f"There are no records called “{name[:80]}”.", hint=f"Use {', '.join(COLLECTIONS)}.")
        return COLLECTIONS[name]

    def get_queryset(self) -> QuerySet:
        return super().get_queryset().filter(kind=self.kind)

    @extend_schema(operation_id="records_of_kind_list", parameters=[COLLECTION])
    def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Records of one kind."""
        return super().list(request, *args, **kwargs)

    @extend_schema(parameters=[COLLECTION], responses=RecordSerializer)
    def retrieve(self, request: Any, collection: str, pk: Any) -> Response:
        """One record; the ETag of the answer is its version."""
        return self.answer(self.get_object())

    @extend_schema(request=CREATED, responses={201: RecordSerializer}, parameters=[COLLECTION], examples=[TASK])
    def create(self, request: Any, collection: str) -> Response:
        """Create a record of your own; it needs no approval. Comments are created at their record."""
        address = client_address(request)
        record = review.create_own_record(request.user, self.shape.kind, self.body(), source=address)
        return self.answer(record, status=201)

    @extend_schema(
        request=CHANGED, responses={200: RecordSerializer, **STALE}, parameters=[COLLECTION, MATCH], examples=[DONE]
    )
    def partial_update(self, request: Any, collection: str, pk: Any) -> Response:
        """Change fields of a record, or of a suggestion, which stays a suggestion."""
        seen = version_seen(request)
        address = client_address(request)
        row = self.get_object()
        # A client may send back what it has read, with its changes in it.
        body = without_echo(self.body(), RecordSerializer(row).data, RecordSerializer.Meta.fields)
        row = review.edit_record(row, body, by=request.user, expected=seen, source=address)
        return self.answer(row)

    @extend_schema(parameters=[COLLECTION, MATCH], responses={204: None, **STALE})
    def destroy(self, request: Any, collection: str, pk: Any) -> Response:
        """Delete a record with its comments and its history."""
        row = self.get_object()
        seen = version_seen(request)
        review.remove_record(row, by=request.user, expected=seen, source=client_address(request))
        return Response(status=204)

    @extend_schema(request=None, responses={200: RecordSerializer, **STALE}, parameters=[COLLECTION, MATCH])
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def approve(self, request: Any, collection: str, pk: Any) -> Response:
        """Approve a suggestion with its comments, or carry out a suggested change. 409 if nothing waits."""
        seen = version_seen(request)
        address = client_address(request)
        row = self.get_object()
        row = review.approve_record(row, by=request.user, expected=seen, source=address)
        return self.answer(row)

    @extend_schema(request=ReasonSerializer, responses={200: RecordSerializer, **STALE}, parameters=[COLLECTION, MATCH])
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def reject(self, request: Any, collection: str, pk: Any) -> Response:
        """Keep a suggestion as rejected, with a reason, or refuse a suggested change. 409 if nothing waits."""
        reason = read_body(ReasonSerializer, request)["reason"]
        seen = version_seen(request)
        address = client_address(request)
        row = self.get_object()
        row = review.reject_record(row, reason, by=request.user, expected=seen, source=address)
        return self.answer(row)

    @extend_schema(responses=RecordSerializer(many=True), parameters=[COLLECTION])
    @action(detail=True, filterset_class=None)
    def comments(self, request: Any, collection: str, pk: Any) -> Response:
        """Comments on this record, oldest first."""
        row = self.get_object()
        return self.paged(row.comments.all(), RecordSerializer, ("id",))

    @extend_schema(request=CommentSerializer, responses={201: RecordSerializer}, parameters=[COLLECTION])
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def add_comment(self, request: Any, collection: str, pk: Any) -> Response:
        """Comment on this record, in your own name."""
        text = read_body(CommentSerializer, request)["text"]
        row = self.get_object()
        comment = review.comment(row, text, by=request.user, source=client_address(request))
        return self.answer(comment, 201)

    @extend_schema(responses=RecordChangeSerializer(many=True), parameters=[COLLECTION])
    @action(detail=True, filterset_class=None)
    def changes(self, request: Any, collection: str, pk: Any) -> Response:
        """The history of this record, newest first: who changed what, and in which run."""
        row = self.get_object()
        return self.paged(row.changes.all(), RecordChangeSerializer, ("-id",))

    # -- what the actions share ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        if self.kind == COMMENT:
            raise Invalid("A comment belongs to a record.", hint="Use POST /api/v1/records/tasks/{id}/comments/.")
        return SHAPES[self.kind]

    def body(self) -> dict[str, Any]:
        if not isinstance(self.request.data, dict):
            raise Invalid("Send a JSON object with the fields of the record.")
        return self.request.data

    def answer(self, row: Record, status: int = 200) -> Response:
        headers = {"ETag": f'"{row.version}"'}
        return Response(RecordSerializer(row).data, status=status, headers=headers)

    def paged(self, rows: QuerySet, serializer: Any, ordering: tuple[str, ...]) -> Response:
        self.page_ordering = ordering
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(serializer(page, many=True).data)
