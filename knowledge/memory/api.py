"""Memories over HTTP: list, search, create, edit, approve, reject, versions, export, erase."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response

from agents import diff
from agents.exceptions import Invalid, NotFound
from agents.http import viewsets
from agents.http.openapi import IF_MATCH
from agents.http.resources import location_header, version_seen
from agents.http.strict import without_echo
from agents.http.throttles import client_address
from agents.http.version_serializers import DiffSerializer
from agents.http.versioned import NUMBER, WITHOUT_LISTS, read_version_number
from agents.http.viewsets import read_body, shared_serializer
from knowledge.models import Memory, MemoryVersion
from knowledge.models.memory import MemoryQuerySet

from . import recall, review
from .filters import MemoryFilter
from .serializers import (
    AgentFileSerializer,
    ChangeSerializer,
    ErasedSerializer,
    ExportSerializer,
    FoundListSerializer,
    ImportedSerializer,
    MemorySerializer,
    MemoryVersionSerializer,
    NewMemorySerializer,
    VersionSerializer,
)

STALE = {412: OpenApiResponse(description="The memory has changed since it was read.")}
LIKES_TEA = OpenApiExample(
    "A preference", request_only=True, value={"text": "Prefers answers in French.", "kind": "preference"}
)
LONGEST_QUERY, MOST_RESULTS = 500, 50


class MemoryViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet):
    """What is remembered for the person, with their agents, and in their teams."""

    scope = "memory"
    queryset = Memory.objects.none()
    serializer_class = MemorySerializer
    filterset_class = MemoryFilter
    orderings = ("created_at", "updated_at")
    page_ordering: tuple[str, ...] = ("-id",)
    bodiless = ("approve", "reject")
    parameters = {"diff": ("from", "to"), "search": ("q", "limit")}

    def get_queryset(self) -> MemoryQuerySet:
        visible = Memory.objects.visible_to(self.request.user)
        return visible.select_related("owner", "agent", "team")

    def retrieve(self, request: Any, pk: Any) -> Response:
        """One memory; the ETag of the answer is its version."""
        return build_memory_response(self.get_object())

    @extend_schema(
        request=NewMemorySerializer, responses={200: MemorySerializer, 201: MemorySerializer}, examples=[LIKES_TEA]
    )
    def create(self, request: Any) -> Response:
        """Remember something; it needs no approval. 200 with the memory that already says the same."""
        body = read_body(NewMemorySerializer, request)
        scope = body.pop("scope", "")
        agent = body.pop("agent", "")
        team = body.pop("team", "")
        place = review.get_writable_place(request.user, scope, agent=agent, team=team)
        row, is_new = review.create_person_memory(request.user, place, body, source=client_address(request))
        if not is_new:
            return build_memory_response(row)
        return build_memory_response(row, 201, location_header(request, row.pk))

    @extend_schema(request=ChangeSerializer, responses={200: MemorySerializer, **STALE}, parameters=[IF_MATCH])
    def partial_update(self, request: Any, pk: Any) -> Response:
        """The next version. A suggestion stays one, and the mark `untrusted` stays."""
        row = self.get_object()
        fixed = set(MemorySerializer.Meta.fields) - set(Memory.CONTENT)
        sent = without_echo(request.data, MemorySerializer(row).data, fixed)
        if sent is None:
            sent = {}
        body = shared_serializer(ChangeSerializer).run_validation(sent)
        row = review.edit_memory(row, body, **self.by())
        return build_memory_response(row)

    @extend_schema(responses={204: None, **STALE}, parameters=[IF_MATCH])
    def destroy(self, request: Any, pk: Any) -> Response:
        """Delete it with all its versions."""
        review.remove_memory(self.get_object(), **self.by())
        return Response(status=204)

    @extend_schema(request=None, responses={200: MemorySerializer, **STALE}, parameters=[IF_MATCH])
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def approve(self, request: Any, pk: Any) -> Response:
        """A suggestion becomes a memory, or the next version of the one that it replaces. 409 if nothing waits."""
        row = review.approve_memory(self.get_object(), **self.by())
        return build_memory_response(row)

    @extend_schema(request=None, responses={204: None, **STALE}, parameters=[IF_MATCH])
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def reject(self, request: Any, pk: Any) -> Response:
        """Delete a suggestion. 409 for a memory that has been approved."""
        review.reject_memory(self.get_object(), **self.by())
        return Response(status=204)

    @extend_schema(request=VersionSerializer, responses={200: MemorySerializer, **STALE}, parameters=[IF_MATCH])
    @action(detail=True, methods=["post"], pagination_class=None, filterset_class=None)
    def rollback(self, request: Any, pk: Any) -> Response:
        """The content of an earlier version becomes the next version."""
        number = read_body(VersionSerializer, request)["version"]
        row = review.roll_back_memory(self.get_object(), number, **self.by())
        return build_memory_response(row)

    @extend_schema(responses=MemoryVersionSerializer(many=True), operation_id="memory_versions_list")
    @action(detail=True, filterset_class=None)
    def versions(self, request: Any, pk: Any) -> Response:
        """Newest first: who wrote what, and in which run."""
        self.page_ordering = ("-number",)
        page = self.paginate_queryset(self.get_object().versions.all())
        serializer = MemoryVersionSerializer(page, many=True)
        return self.get_paginated_response(serializer.data)

    @extend_schema(
        responses=DiffSerializer,
        parameters=[OpenApiParameter(name, NUMBER, required=True) for name in ("from", "to")],
    )
    @action(detail=True, **WITHOUT_LISTS)
    def diff(self, request: Any, pk: Any) -> Response:
        """What changed between two versions."""
        row = self.get_object()
        first = read_version_number(request, "from")
        second = read_version_number(request, "to")
        old = load_version_content(row, first)
        new = load_version_content(row, second)
        text = diff.diff_texts(diff.render_spec(old), diff.render_spec(new), f"version {first}", f"version {second}")
        body = {"from": first, "to": second, "changes": diff.changes(old, new), "text": text}
        return Response(DiffSerializer(body).data)

    @extend_schema(
        responses=FoundListSerializer,
        parameters=[
            OpenApiParameter("q", str, required=True, description="Words, at most 500 characters."),
            OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": 50, "default": 10}),
        ],
    )
    @action(detail=False, **WITHOUT_LISTS)
    def search(self, request: Any) -> Response:
        """Approved memories that fit the words, best first, each with the reason."""
        text, limit = parse_memory_query(request)
        rows = recall.load_recall_candidates(self.get_queryset().active(), text, None)
        results = []
        for one in recall.search_memories(rows, text, user_id=request.user.pk, limit=limit):
            memory = MemorySerializer(one.row).data
            results.append({**memory, "because": one.because})
        return Response({"results": results})

    @extend_schema(responses=ExportSerializer)
    @action(detail=False, **WITHOUT_LISTS)
    def export(self, request: Any) -> Response:
        """Your own memories with all their versions, oldest first."""
        memories = list(review.iterate_exported_memories(request.user))
        return Response(ExportSerializer({"results": memories}).data)

    @extend_schema(responses={200: ErasedSerializer}, operation_id="memory_erase")
    @action(detail=False, methods=["delete"], **WITHOUT_LISTS)
    def erase(self, request: Any) -> Response:
        """Delete all your memories with their versions, also those that you wrote for agents and teams."""
        count = review.erase_person_memories(request.user, source=client_address(request))
        return Response({"erased": count})

    @extend_schema(request=AgentFileSerializer, responses={200: ImportedSerializer}, operation_id="memory_import")
    @action(detail=False, methods=["post"], **WITHOUT_LISTS)
    def bring_in(self, request: Any) -> Response:
        """Read the memory blocks of Letta's agent file (`.af`): each becomes a suggestion that is marked untrusted."""
        body = read_body(AgentFileSerializer, request)
        agent = body.get("agent", "")
        scope = Memory.Scope.PERSON_AGENT if agent else Memory.Scope.PERSON
        place = review.get_writable_place(request.user, scope, agent=agent)
        counts = review.import_memory_blocks(request.user, place, body["file"], source=client_address(request))
        return Response(counts)

    def by(self) -> dict[str, Any]:
        return {
            "user": self.request.user, "expected": version_seen(self.request), "source": client_address(self.request),
        }  # fmt: skip


def build_memory_response(row: Memory, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    all_headers = {"ETag": f'"{row.version}"'}
    all_headers.update(headers or {})
    return Response(MemorySerializer(row).data, status=status, headers=all_headers)


def load_version_content(row: Memory, number: int) -> dict[str, Any]:
    version = MemoryVersion.objects.filter(memory=row, number=number).first()
    if version is None:
        raise NotFound(f"This memory has no version {number}.")
    fields = MemoryVersionSerializer(version).data
    return {name: fields[name] for name in Memory.CONTENT}


def parse_memory_query(request: Any) -> tuple[str, int]:
    """The text and the number of results. Raises Invalid."""
    text = request.query_params.get("q", "").replace("\0", " ").strip()
    if not text or len(text) > LONGEST_QUERY:
        raise Invalid(f"“q” must have 1 to {LONGEST_QUERY} characters.", code="invalid_query")
    limit = request.query_params.get("limit", "10")
    is_number = limit.isascii() and limit.isdigit() and len(limit) < 4
    if not is_number or not 1 <= int(limit) <= MOST_RESULTS:
        raise Invalid(f"“limit” must be a whole number from 1 to {MOST_RESULTS}.", code="invalid_limit")
    return text, int(limit)
