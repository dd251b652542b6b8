"""The API of the vocabulary: me, keys, providers, agents, tools, teams, secrets, audit."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pydantic
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, Q, QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.views import APIView

from agents import diff
from agents.exceptions import Conflict, Invalid, NotFound
from agents.models import Agent, AgentVersion, ApiKey, AuditEvent, Provider, Secret, Team, Tool
from agents.models.agent import provider_changed
from agents.models.team import SLUG
from agents.serializers import (
    AgentSerializer,
    AuditSerializer,
    DiffSerializer,
    GrantSerializer,
    KeySerializer,
    MeSerializer,
    NewKeySerializer,
    ProviderSerializer,
    PublishedSerializer,
    PublishSerializer,
    RollbackSerializer,
    SecretSerializer,
    TeamSerializer,
    ToolSerializer,
    VersionSerializer,
    WholeVersionSerializer,
    read_grants,
    replace_grants,
)
from agents.throttles import address_of


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """One transaction; what the database refuses becomes a conflict."""
    try:
        with transaction.atomic():
            yield
    except ProtectedError as error:
        users = sorted({str(row) for row in list(error.protected_objects)[:5]})
        raise Conflict(f"This {what} is in use.", code="in_use", hint=f"Used by: {', '.join(users)}.")
    except IntegrityError:
        raise Conflict(f"There is a {what} of that name already.", code="name_taken")


class Audited:
    """Every change through the API is one line in the audit log."""

    request: Any

    def audit(self, verb: str, row: Any, **details: Any) -> None:
        action = f"{row._meta.model_name}.{verb}"
        AuditEvent.record(action, row, actor=self.request.user, source=address_of(self.request), **details)


class NamedViewSet(Audited, viewsets.ModelViewSet):
    """Rows under their names: not visible is 404, visible but not editable is 403."""

    model: Any
    lookup_field = "name"
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "options"]
    page_ordering: tuple[str, ...] = ("name", "pk")

    def get_queryset(self) -> QuerySet:
        return self.model.objects.visible_to(self.request.user).select_related("owner", "team")

    def get_object(self) -> Any:
        """The row this name means to this person (own → team → site); to change it takes the right to."""
        rows = self.get_queryset().filter(name=readable_name(self.kwargs["name"]))
        row = rows.nearest_first(self.request.user).first()
        if row is None:
            raise NotFound(
                f"There is no {self.model._meta.verbose_name} “{self.kwargs['name'][:80]}” that you can see."
            )
        if self.request.method not in ("GET", "HEAD", "OPTIONS"):
            row.require_edit(self.request.user)
        return row

    def perform_create(self, serializer: Any) -> None:
        with refusals(self.model._meta.verbose_name):
            self.audit("created", serializer.save())

    def perform_update(self, serializer: Any) -> None:
        with refusals(self.model._meta.verbose_name):
            row = serializer.save()
            serializer.partial = False  # it would leave out of the answer what has a default
            self.audit("changed", row, fields=sorted(serializer.validated_data))
            self.changed(row)

    def changed(self, row: Any) -> None:
        """What else follows from a change."""

    def perform_destroy(self, row: Any) -> None:
        with refusals(self.model._meta.verbose_name):
            self.audit("deleted", row)
            row.delete()


def readable_name(name: str) -> str:
    """A name as it stands in a path; what cannot be one names nothing."""
    if not SLUG.regex.match(name):
        raise NotFound("There is nothing of that name.")
    return name


class ProviderViewSet(NamedViewSet):
    """LLM accounts. The key is write-only, and cleared when the address changes."""

    model = Provider
    scope = "providers"
    queryset = Provider.objects.none()
    serializer_class = ProviderSerializer
    filterset_fields = ["kind", "enabled"]

    def changed(self, row: Provider) -> None:
        provider_changed(row)


VERSION = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
NEW_AGENT = OpenApiExample(
    "A librarian",
    request_only=True,
    value={
        "name": "librarian",
        "description": "Finds books and answers questions about them.",
        "system_prompt": "You are a librarian. Be brief.",
        "provider": "offline",
        "capabilities": ["books"],
        "model_params": {"temperature": 0.2},
    },
)


@extend_schema(examples=[NEW_AGENT])
class AgentViewSet(NamedViewSet):
    """The working rows of agents, their versions and their grants."""

    model = Agent
    scope = "agents"
    queryset = Agent.objects.none()
    serializer_class = AgentSerializer
    filterset_fields = ["enabled", "provider__name"]

    def get_queryset(self) -> QuerySet:
        return super().get_queryset().select_related("provider", "published").prefetch_related("grants__tool")

    def perform_destroy(self, agent: Agent) -> None:
        """An agent without runs goes with its versions; one with a history stays (409)."""
        with refusals("agent"):
            self.audit("deleted", agent)
            agent.delete_unused()

    @extend_schema(request=PublishSerializer, responses={200: PublishedSerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def publish(self, request: Any, name: str) -> Response:
        """Freeze the working row as a version and make it live; equal content is the same version again."""
        body = read(PublishSerializer, request)
        agent = self.get_object()
        try:
            version = agent.publish(author=request.user, note=body["note"])
        except pydantic.ValidationError as error:
            raise Invalid("The agent cannot be published.", details=problems_of(error))
        self.audit("published", agent, version=version.number)
        return Response(PublishedSerializer({"version": version.number, "sha256": version.sha256}).data)

    @extend_schema(request=RollbackSerializer, responses={200: PublishedSerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def rollback(self, request: Any, name: str) -> Response:
        """Make an earlier version live again."""
        body = read(RollbackSerializer, request)
        agent = self.get_object()
        version = agent.rollback(body["version"])
        self.audit("rolled_back", agent, version=version.number)
        return Response(PublishedSerializer({"version": version.number, "sha256": version.sha256}).data)

    @extend_schema(responses=VersionSerializer(many=True), operation_id="agents_versions_list")
    @action(detail=True, filterset_fields=None)
    def versions(self, request: Any, name: str) -> Response:
        """Newest first."""
        rows = self.get_object().versions.select_related("author", "agent")
        self.page_ordering = ("-number",)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(VersionSerializer(page, many=True).data)

    @extend_schema(responses=WholeVersionSerializer, operation_id="agents_versions_retrieve")
    @action(detail=True, pagination_class=None, filterset_fields=None)
    def version(self, request: Any, name: str, number: int) -> Response:
        """One version with its whole spec."""
        return Response(WholeVersionSerializer(find_version(self.get_object(), number)).data)

    @extend_schema(
        responses=DiffSerializer,
        parameters=[OpenApiParameter("from", VERSION, required=True), OpenApiParameter("to", VERSION, required=True)],
    )
    @action(detail=True, pagination_class=None, filterset_fields=None)
    def diff(self, request: Any, name: str) -> Response:
        """What changed between two versions."""
        agent = self.get_object()
        numbers = [number_in(request, "from"), number_in(request, "to")]
        old, new = (find_version(agent, number).spec for number in numbers)
        text = diff.unified(diff.as_text(old), diff.as_text(new), f"v{numbers[0]}", f"v{numbers[1]}")
        body = {"from": numbers[0], "to": numbers[1], "changes": diff.changes(old, new), "text": text}
        return Response(DiffSerializer(body).data)

    @extend_schema(methods=["GET"], responses=GrantSerializer(many=True))
    @extend_schema(methods=["PUT"], request=GrantSerializer(many=True), responses={200: GrantSerializer(many=True)})
    @action(detail=True, methods=["get", "put"], pagination_class=None, filterset_fields=None)
    def grants(self, request: Any, name: str) -> Response:
        """The tools this agent may use; PUT replaces the whole list (of the draft: publish to make it live)."""
        agent = self.get_object()
        if request.method == "PUT":
            serializer = GrantSerializer(data=request.data, many=True, context=self.get_serializer_context())
            serializer.is_valid(raise_exception=True)
            with refusals("grant"):
                replace_grants(agent, read_grants(request.user, serializer.validated_data))
                self.audit("changed", agent, fields=["grants"])
        return Response(GrantSerializer(agent.grants.select_related("tool"), many=True).data)


def read(serializer_class: Any, request: Any) -> dict[str, Any]:
    """The body as a serializer without context reads it. Raises ValidationError."""
    return kept(serializer_class).run_validation(request.data if request.data is not None else {})


@cache
def kept(serializer_class: Any) -> Any:
    """One of each: making a serializer copies all its fields, and validating changes nothing in it."""
    return serializer_class()


def problems_of(error: pydantic.ValidationError) -> list[dict[str, str]]:
    return [
        {"field": ".".join(str(part) for part in entry["loc"]), "code": entry["type"], "message": entry["msg"]}
        for entry in error.errors()
    ]


def find_version(agent: Agent, number: int) -> AgentVersion:
    version = agent.versions.select_related("author", "agent").filter(number=number).first()
    if version is None:
        raise NotFound(f"“{agent.name}” has no version {number}.")
    return version


def number_in(request: Any, name: str) -> int:
    value = request.query_params.get(name, "")
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise Invalid(f"“{name}” must be the number of a version.", code="invalid_version")
    return int(value)


class ToolViewSet(viewsets.ReadOnlyModelViewSet):
    """The catalogue of tools that this person can see."""

    scope = "tools"
    queryset = Tool.objects.none()
    serializer_class = ToolSerializer
    lookup_field = "name"
    filterset_fields = ["kind", "effect", "enabled"]
    page_ordering: tuple[str, ...] = ("name", "pk")

    def get_queryset(self) -> QuerySet:
        tools = Tool.objects.visible_to(self.request.user).select_related("owner", "team")
        words = self.request.query_params.get("search", "").replace("\0", " ").split()[:10]
        for word in words:
            tools = tools.filter(Q(name__icontains=word) | Q(description__icontains=word))
        return tools

    def get_object(self) -> Tool:
        return self.get_queryset().named(self.request.user, readable_name(self.kwargs["name"]))

    @extend_schema(parameters=[OpenApiParameter("search", str, description="Words in the name or the description.")])
    def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().list(request, *args, **kwargs)


class SecretViewSet(NamedViewSet):
    """Secrets by name. Their values are never shown."""

    model = Secret
    scope = "secrets"
    queryset = Secret.objects.none()
    serializer_class = SecretSerializer


class TeamViewSet(NamedViewSet):
    """Teams of this person; whoever makes one administers it."""

    model = Team
    scope = "teams"
    queryset = Team.objects.none()
    serializer_class = TeamSerializer

    def get_queryset(self) -> QuerySet:
        return Team.objects.visible_to(self.request.user).prefetch_related("memberships__user")


class KeyViewSet(
    Audited, mixins.ListModelMixin, mixins.RetrieveModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet
):
    """One's own API keys. The secret is in the answer to POST and nowhere else."""

    scope = "keys"
    queryset = ApiKey.objects.none()
    serializer_class = KeySerializer
    filterset_fields: list[str] = []

    def get_queryset(self) -> QuerySet:
        return ApiKey.objects.visible_to(self.request.user)

    @extend_schema(request=KeySerializer, responses={201: NewKeySerializer})
    def create(self, request: Any) -> Response:
        serializer = KeySerializer(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        key, key.secret = ApiKey.make(  # type: ignore[attr-defined]
            request.user, asked["scopes"], name=asked.get("name", ""), expires_at=asked.get("expires_at")
        )
        self.audit("created", key, scopes=key.scopes)
        return Response(NewKeySerializer(key).data, status=201)

    def perform_destroy(self, key: ApiKey) -> None:
        """Revoked, not forgotten: runs and the audit log point at it."""
        key.revoke()
        self.audit("revoked", key)


class AuditViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """What this person did, and what happened to what is theirs."""

    scope = "audit"
    queryset = AuditEvent.objects.none()
    serializer_class = AuditSerializer
    filterset_fields = ["action", "subject_kind", "subject_name"]

    def get_queryset(self) -> QuerySet:
        return AuditEvent.objects.visible_to(self.request.user)


class MeView(APIView):
    @extend_schema(responses=MeSerializer)
    def get(self, request: Any) -> Response:
        """Who am I, and what may this key do?"""
        key = request.auth if isinstance(request.auth, ApiKey) else None
        user = request.user
        body = {
            "username": user.get_username(),
            "email": user.email,
            "is_superuser": user.is_superuser,
            "scopes": key.scopes if key else ["*", "approvals:decide"],
            "key": key.prefix if key else None,
            "teams": user.memberships.select_related("team").order_by("team__name"),
        }
        return Response(MeSerializer(body).data)
