"""The API of hooks."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers

from agents.exceptions import Forbidden, Invalid
from agents.http import viewsets
from agents.http.strict import RowId
from agents.http.viewsets import Audited
from agents.models import Agent, Hook, Team, Tool
from agents.models.options import find_options
from agents.serializers.owned import OptionSerializer

MAIL_CHECK = OpenApiExample(
    "Check mail before it is sent",
    request_only=True,
    value={"place": "before_tool", "function": "only-our-customers", "agent": "clerk", "tools": ["send_*"]},
)


class HookSerializer(OptionSerializer):
    """Send `agent` or `team`, or neither for a hook of the site. The scope cannot be changed later."""

    id = RowId(read_only=True)
    function = serializers.SlugRelatedField(slug_field="name", source="tool", queryset=Tool.objects.none())
    agent = serializers.SlugRelatedField(
        slug_field="name", queryset=Agent.objects.none(), allow_null=True, required=False
    )
    team = serializers.SlugRelatedField(
        slug_field="name", queryset=Team.objects.none(), allow_null=True, required=False
    )
    scope = serializers.CharField(read_only=True, help_text="agent, team or site.")
    created_by: Any = serializers.SlugRelatedField(slug_field="username", read_only=True, allow_null=True)

    class Meta:
        model = Hook
        fields = [
            "id", "place", "function", "scope", "agent", "team", *find_options(Hook), "created_by", "created_at",
            "updated_at",
        ]  # fmt: skip
        read_only_fields = ["created_at", "updated_at"]

    def get_fields(self) -> dict[str, Any]:
        """Names mean what this user may see or use."""
        fields = super().get_fields()
        request = self.context.get("request")
        if request is not None and request.user.is_authenticated:
            functions = Tool.objects.usable_by(request.user).filter(kind=Tool.Kind.FUNCTION)
            fields["function"].queryset = functions  # type: ignore[attr-defined]
            fields["agent"].queryset = Agent.objects.visible_to(request.user)  # type: ignore[attr-defined]
            fields["team"].queryset = Team.objects.visible_to(request.user)  # type: ignore[attr-defined]
        return fields

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        if self.instance is None:
            return fields
        # Who reads a hook and sends it back unchanged does not change its scope.
        for name in ("agent", "team"):
            present = getattr(self.instance, name)
            if fields.get(name, present) != present:
                raise serializers.ValidationError("The scope cannot be changed: delete the hook and create another.")
        return fields


@extend_schema(examples=[MAIL_CHECK])
class HookViewSet(Audited, viewsets.ModelViewSet):
    """Stored functions that check tool calls and messages. Who may see one may be affected by it."""

    scope = "agents"
    serializer_class = HookSerializer
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]
    filterset_fields = {"place": ["exact"], "enabled": ["exact"]}
    queryset = Hook.objects.none()

    def get_queryset(self) -> QuerySet[Hook]:
        visible = Hook.objects.visible_to(self.request.user)
        return visible.select_related("tool", "agent", "team", "created_by")

    def get_object(self) -> Any:
        hook = super().get_object()
        if self.request.method not in ("GET", "HEAD", "OPTIONS"):
            hook.require_edit(self.request.user)
        return hook

    def perform_create(self, serializer: Any) -> None:
        hook = Hook(created_by=self.request.user, **serializer.validated_data)
        require_scope(hook, self.request.user)
        serializer.instance = save_hook(hook)
        self.audit("created", hook, **audit_details(hook))

    def perform_update(self, serializer: Any) -> None:
        hook = serializer.instance
        for name, value in serializer.validated_data.items():
            setattr(hook, name, value)
        save_hook(hook)
        self.audit("changed", hook, **audit_details(hook))

    def perform_destroy(self, hook: Hook) -> None:
        self.audit("deleted", hook, **audit_details(hook))
        hook.delete()


def require_scope(hook: Hook, user: Any) -> None:
    """Who may set a hook: the owner of the agent, an administrator of the team, a superuser for the site."""
    if hook.agent is not None:
        hook.agent.require_edit(user)
    if hook.team is not None and not hook.team.may_edit(user):
        raise Forbidden(
            "Only administrators of a team set its hooks.",
            code="role",
            hint="Ask one of them, or set the hook for an agent of your own.",
        )
    if hook.scope == "site" and not user.is_superuser:
        raise Forbidden("Only superusers set hooks of the site.", hint="Send “agent” or “team”.")


def save_hook(hook: Hook) -> Hook:
    try:
        hook.full_clean(exclude=["created_by"])
    except ValidationError as error:
        raise Invalid.of(error)
    hook.save()
    return hook


def audit_details(hook: Hook) -> dict[str, Any]:
    return {"place": hook.place, "scope": hook.scope, "version": hook.pinned_version, "enabled": hook.enabled}
