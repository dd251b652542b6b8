"""The API of accounts and definitions: me, keys, providers, agents, tools, teams, secrets, audit."""

from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_noop as _
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response

from agents import available_models, membership, roles
from agents.exceptions import NotFound
from agents.http import viewsets
from agents.http.authentication import find_key
from agents.http.filters import FilterSet
from agents.http.resources import location_header
from agents.http.version_serializers import VersionSerializer, WholeVersionSerializer
from agents.http.versioned import WITHOUT_LISTS, GrantedViewSet, serve_versions
from agents.http.viewsets import APIView, Audited, ByName, NamedViewSet, read_body, readable_name, refusals
from agents.models import Agent, ApiKey, AuditEvent, Invitation, Membership, Prompt, Provider, Secret, Team, Tool
from agents.models.agent import provider_changed
from agents.serializers.agents import AgentSerializer, ToolSerializer
from agents.serializers.people import (
    AuditSerializer,
    InvitationSerializer,
    KeySerializer,
    MeSerializer,
    NewKeySerializer,
    PromptSerializer,
    SecretSerializer,
    TeamSerializer,
)
from agents.serializers.providers import ProviderSerializer, ServedSerializer, TrialResultSerializer, TrialSerializer
from agents.sharing import remove_unshared_uses
from plumbing.texts import translate


class ProviderViewSet(NamedViewSet):
    """LLM accounts. The key is write-only, and cleared when the address changes."""

    model = Provider
    scope = "providers"
    queryset = Provider.objects.none()
    serializer_class = ProviderSerializer
    filterset_fields = ["name", "kind", "enabled"]

    def changed(self, row: Provider) -> None:
        provider_changed(row)

    @extend_schema(responses=ServedSerializer)
    @action(detail=True, **WITHOUT_LISTS)
    def models(self, request: Any, name: str) -> Response:
        """The models that its server lists, for people who may use it. 503 if the server does not answer."""
        provider = self.get_object()
        provider.require_use(request.user)
        names = available_models.models(provider)
        facts = {}
        for model_name in names:
            model = provider.known_model(model_name)
            if model:
                facts[model_name] = model.as_json()
        return Response({"models": names, "default_model": provider.default_model, "known": facts})

    @extend_schema(request=TrialSerializer, responses={200: TrialResultSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def test(self, request: Any, name: str) -> Response:
        """Try it: is its address right, is its key accepted, does it have the model, and what can the model do? The
        last costs a few tokens; `requests: false` leaves it out.
        """
        body = read_body(TrialSerializer, request)
        provider = self.get_object()
        trial = available_models.try_provider if body["requests"] else available_models.verdict
        verdict = {"abilities": [], **trial(provider, body.get("model", ""))}
        available_models.record_trial(provider, verdict)
        self.audit("tested", provider, ok=verdict["ok"], code=verdict["code"])
        for ability in verdict["abilities"]:
            ability["message"] = translate(ability["message"])
        return Response(verdict)


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


class AgentFilter(FilterSet):
    provider = filters.CharFilter("provider__name", help_text="A provider's name.")

    class Meta(FilterSet.Meta):
        model = Agent
        fields = ["name", "enabled"]


@extend_schema(examples=[NEW_AGENT])
@serve_versions("agents", VersionSerializer, WholeVersionSerializer)
class AgentViewSet(GrantedViewSet):
    """The working rows of agents, their versions and their grants."""

    model = Agent
    scope = "agents"
    queryset = Agent.objects.none()
    serializer_class = AgentSerializer
    filterset_class = AgentFilter
    search_fields = ("name", "description")

    def get_queryset(self) -> QuerySet:
        rows = super().get_queryset().select_related("provider", "published")
        return rows.prefetch_related("grants__tool", "hooks__tool")

    def perform_destroy(self, agent: Agent) -> None:
        """Delete an agent that has no runs, with its versions; one with runs answers 409."""
        with refusals("agent", self.request.user):
            self.audit("deleted", agent)
            remove_unshared_uses(agent)
            agent.delete_unused()


class ToolViewSet(ByName, viewsets.ReadOnlyModelViewSet):
    """The catalogue of tools that this user can see."""

    scope = "tools"
    queryset = Tool.objects.none()
    serializer_class = ToolSerializer
    lookup_field = "name"
    filterset_fields = ["name", "kind", "effect", "enabled"]
    search_fields = ("name", "description")
    orderings = ("name",)
    page_ordering: tuple[str, ...] = ("name", "pk")

    def get_queryset(self) -> QuerySet:
        return Tool.objects.visible_to(self.request.user).select_related("owner", "team")

    def get_object(self) -> Tool:
        tool: Tool = self.named(self.get_queryset())
        return tool


class SecretViewSet(NamedViewSet):
    """Secrets by name. Their values are never shown."""

    model = Secret
    scope = "secrets"
    queryset = Secret.objects.none()
    serializer_class = SecretSerializer
    filterset_fields = ["name"]


class PromptViewSet(NamedViewSet):
    """Saved prompts: texts for the composer of the chat."""

    model = Prompt
    scope = "prompts"
    queryset = Prompt.objects.none()
    serializer_class = PromptSerializer
    filterset_fields = ["name"]
    search_fields = ("name", "description", "text")


class TeamViewSet(NamedViewSet):
    """Teams of this person; the person who makes one administers it."""

    model = Team
    # The names of teams are unique.
    by_owner = False
    scope = "teams"
    personal = ("leave",)
    queryset = Team.objects.none()
    serializer_class = TeamSerializer
    bodiless = ("leave",)
    filterset_fields = ["name"]
    orderings = ("name", "created_at")

    def get_queryset(self) -> QuerySet:
        return Team.objects.visible_to(self.request.user).prefetch_related("memberships__user")

    @extend_schema(
        methods=["GET"], responses=InvitationSerializer(many=True), operation_id="teams_invitations_list"
    )  # fmt: skip
    @extend_schema(methods=["POST"], request=InvitationSerializer, responses={201: InvitationSerializer})
    @action(detail=True, methods=["get", "post"], filterset_fields=None)
    def invitations(self, request: Any, name: str) -> Response:
        """The team's open invitations; POST asks a person by user name. Both are an administrator's to do."""
        team = self.get_object()
        team.require_edit(request.user)
        if request.method == "POST":
            body = read_body(InvitationSerializer, request)
            invitation = membership.invite(team, body["user"]["username"], body["role"], by=request.user)
            self.audit("invited", team, user=invitation.user.get_username(), role=invitation.role)
            headers = location_header(request, invitation.pk)
            return Response(InvitationSerializer(invitation).data, status=201, headers=headers)
        self.page_ordering = ("-id",)
        rows = team.invitations.open().select_related("team", "user", "invited_by")
        serializer = InvitationSerializer(self.paginate_queryset(rows), many=True)
        return self.get_paginated_response(serializer.data)

    @extend_schema(responses={204: None})
    @action(detail=True, methods=["delete"], pagination_class=None, filterset_fields=None)
    def invitation(self, request: Any, name: str, pk: int) -> Response:
        """Withdraw an open invitation."""
        team = self.get_object()
        row = team.invitations.filter(pk=pk).select_related("user").first()
        if row is None:
            raise NotFound(_("This team has no such invitation."))
        row.answer(Invitation.Status.WITHDRAWN)
        self.audit("invitation_withdrawn", team, user=row.user.get_username())
        return Response(status=204)

    @extend_schema(request=None, responses={204: None})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def leave(self, request: Any, name: str) -> Response:
        """Leave a team. What you shared with it is yours alone again. Its last administrator cannot leave (409)."""
        team = self.get_queryset().filter(name=readable_name(name)).first()
        if team is None:
            raise NotFound(_("There is no team “%(name)s” that you are in.") % {"name": name[:80]})
        membership.leave(Membership.objects.get(team=team, user=request.user))
        self.audit("left", team)
        return Response(status=204)


class InvitationViewSet(Audited, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Teams that ask you to join. Nobody becomes a member without accepting."""

    scope = "teams"
    personal = ("accept", "decline")
    queryset = Invitation.objects.none()
    serializer_class = InvitationSerializer
    bodiless = ("accept", "decline")
    filterset_fields = ["status"]

    def get_queryset(self) -> QuerySet:
        return Invitation.objects.visible_to(self.request.user).select_related("team", "user", "invited_by")

    @extend_schema(request=None, responses=InvitationSerializer)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def accept(self, request: Any, pk: int) -> Response:
        """Become a member of the team in the role that was offered."""
        invitation = self.get_object()
        invitation.accept()
        self.audit("joined", invitation.team, role=invitation.role)
        return Response(InvitationSerializer(invitation).data)

    @extend_schema(request=None, responses=InvitationSerializer)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def decline(self, request: Any, pk: int) -> Response:
        """Turn the invitation down."""
        invitation = self.get_object()
        invitation.answer(Invitation.Status.DECLINED)
        self.audit("invitation_declined", invitation.team)
        return Response(InvitationSerializer(invitation).data)


class KeyViewSet(
    Audited, mixins.ListModelMixin, mixins.RetrieveModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet
):
    """The user's own API keys. The secret is only included in the answer to POST."""

    scope = "keys"
    secret_answers = ("create",)
    queryset = ApiKey.objects.none()
    serializer_class = KeySerializer
    filterset_fields: list[str] = []
    search_fields = ("name",)
    orderings = ("name", "created_at")

    def get_queryset(self) -> QuerySet:
        return ApiKey.objects.visible_to(self.request.user)

    @extend_schema(request=KeySerializer, responses={201: NewKeySerializer})
    def create(self, request: Any) -> Response:
        serializer = KeySerializer(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        name = values.get("name", "")
        key, secret = ApiKey.make(
            request.user, values["scopes"], name=name, expires_at=values["expires_at"], made_by=find_key(request)
        )
        key.secret = secret  # type: ignore[attr-defined]
        self.audit("created", key, scopes=key.scopes)
        return Response(NewKeySerializer(key).data, status=201, headers=location_header(request, key.pk))

    def perform_destroy(self, key: ApiKey) -> None:
        """Keys are revoked, not deleted: runs and the audit log refer to them."""
        key.revoke()
        self.audit("revoked", key)


class AuditViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """This user's actions, and changes to this user's rows."""

    scope = "audit"
    queryset = AuditEvent.objects.none()
    serializer_class = AuditSerializer
    filterset_fields = {
        "action": ["exact"],
        "subject_kind": ["exact"],
        "subject_name": ["exact"],
        "at": ["gte", "lt"],
    }
    search_fields = ("action", "subject_name")
    orderings = ("at",)

    def get_queryset(self) -> QuerySet:
        return AuditEvent.objects.visible_to(self.request.user)


class MeView(APIView):
    @extend_schema(responses=MeSerializer)
    def get(self, request: Any) -> Response:
        """The current user, their role on the site, and the scopes of the key."""
        key = find_key(request)
        user = request.user
        body = {
            "username": user.get_username(),
            "email": user.email,
            "is_superuser": user.is_superuser,
            "role": roles.find_role(user),
            "scopes": key.scopes if key else ["*", "approvals:decide"],
            "key": key.prefix if key else None,
            "teams": user.memberships.select_related("team").order_by("team__name"),
        }
        return Response(MeSerializer(body).data)
