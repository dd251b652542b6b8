"""Accounts and definitions as JSON. Secrets are write-only."""

from typing import Any

from django.conf import settings
from django.db import models
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import empty

from agents import prompts, roles
from agents.definitions.hooks import read_hooks, write_hooks
from agents.exceptions import Conflict, Forbidden, NotFound
from agents.http.grant_serializers import GrantSerializer, read_grants, replace_grants
from agents.http.strict import (
    REQUIRED,
    Choice,
    Flag,
    Number,
    ObjectField,
    OptionalSchemaField,
    RowId,
    StrictModelSerializer,
    StrictSerializer,
    Text,
    Whole,
    Words,
)
from agents.membership import set_roles
from agents.models import (
    Agent,
    ApiKey,
    AuditEvent,
    Invitation,
    Membership,
    Prompt,
    Provider,
    Secret,
    Team,
    Tool,
    ToolGrant,
)
from agents.models.hook import LIMIT
from agents.models.key import unknown_scopes
from agents.models.prompt import LENGTH
from agents.sharing import carry, check_share

WHEN = {"message": "message_in", "before_call": "before_tool", "after_call": "after_tool", "reply": "message_out"}


class TeamName(serializers.SlugRelatedField):
    """A team by name, or null; one can only share with a team one belongs to."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            slug_field="name", queryset=Team.objects.none(), **{"required": False, "allow_null": True, **kwargs}
        )

    def get_queryset(self) -> models.QuerySet:
        return Team.objects.visible_to(self.context["request"].user)

    def run_validation(self, data: Any = empty) -> Any:
        if data == "":  # DRF would read it as null
            self.fail("does_not_exist", slug_name="name", value="")
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> Team:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class OwnedSerializer(StrictModelSerializer):
    """What every owned row shows, and the rule that a name is free."""

    name = Text(max_length=64)
    owner = serializers.SlugRelatedField(
        slug_field="username", read_only=True, allow_null=True, help_text="Null: the site's."
    )
    team = TeamName(help_text="Share with everyone in this team.")

    def validate_name(self, name: str) -> str:
        field = self.Meta.model._meta.get_field("name")
        for check in field.validators:
            check(name)
        owner = self.instance.owner if self.instance else self.context["request"].user
        taken = self.Meta.model.objects.filter(owner=owner, name=name)
        if taken.exclude(pk=self.instance.pk if self.instance else None).exists():
            raise Conflict(
                f"Another {self.Meta.model._meta.verbose_name} is already called “{name}”.", code="name_taken"
            )
        return name

    def get_unique_together_validators(self) -> list[Any]:
        """None: `check_share` says more than that a name is taken."""
        return []

    def run_validation(self, data: Any = empty) -> Any:
        """Sharing takes a role in the team, and a name that means nothing else there."""
        fields = super().run_validation(data)
        user = self.context["request"].user
        row = self.instance or self.Meta.model(owner=user)
        check_share(row, user, fields.get("team", row.team), fields.get("name", row.name))
        return fields

    def save(self, **fields: Any) -> Any:
        row = super().save(**fields)
        carry(row)
        return row

    def create(self, validated: dict[str, Any]) -> Any:
        return super().create({"owner": self.context["request"].user, **validated})


OWNED = ["owner", "team", "created_at", "updated_at"]


class PriceSerializer(StrictSerializer):
    input = Number(min_value=0, default=0)
    output = Number(min_value=0, default=0)


class PricesField(serializers.DictField):
    child = PriceSerializer()

    def to_representation(self, value: Any) -> Any:
        return value


class ProviderSerializer(OwnedSerializer):
    api_key = Text(write_only=True, required=False, allow_blank=True, max_length=2000, help_text="Never shown again.")
    has_key = serializers.SerializerMethodField()
    prices = PricesField(required=False, help_text="US dollars per million tokens, by model; * is any other.")

    class Meta:
        model = Provider
        fields = [
            "name", "kind", "base_url", "api_key", "has_key", "enabled", "tool_calling", "default_model", "prices",
            "max_running", *OWNED,
        ]  # fmt: skip

    def get_has_key(self, provider: Provider) -> bool:
        return bool(provider.api_key)

    def update(self, provider: Provider, validated: dict[str, Any]) -> Provider:
        """A stored key is not kept when the address changes."""
        address = (validated.get("kind", provider.kind), validated.get("base_url", provider.base_url))
        if address != (provider.kind, provider.base_url):
            validated = {"api_key": "", **validated}
        return super().update(provider, validated)


class ServedSerializer(serializers.Serializer):
    models = serializers.ListField(child=serializers.CharField(), help_text="At most 1,000, in the server's order.")
    default_model = serializers.CharField(allow_blank=True)


class TrialSerializer(StrictSerializer):
    model = Text(required=False, allow_blank=True, max_length=100, help_text="Default: the provider's default model.")


class TrialResultSerializer(serializers.Serializer):
    ok = serializers.BooleanField()
    code = serializers.CharField(allow_blank=True, help_text="Why not, for programs.")
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)
    models = serializers.IntegerField(help_text="How many its server lists.")
    wall_ms = serializers.FloatField()


class ModelParamsSerializer(StrictSerializer):
    temperature = Number(min_value=0, max_value=2, required=False)
    top_p = Number(min_value=0, max_value=1, required=False)
    presence_penalty = Number(min_value=-2, max_value=2, required=False)
    frequency_penalty = Number(min_value=-2, max_value=2, required=False)
    max_tokens = Whole(min_value=1, max_value=1_000_000, required=False)

    def to_representation(self, value: dict[str, Any]) -> dict[str, Any]:
        return {name: value[name] for name in self.fields if value.get(name) is not None}


@extend_schema_field({"type": "object", "additionalProperties": {"type": "object"}})
class VariablesField(serializers.JSONField):
    """Name → JSON Schema of a value that a message gives; `default` for one that may be left out."""

    def to_internal_value(self, data: Any) -> Any:
        if found := prompts.problems_of(data):
            raise serializers.ValidationError([f"{one['field']}: {one['message']}" for one in found])
        return data


class HooksSerializer(serializers.ListSerializer):
    """Those of the agent itself, without those of its team and of the site; only what is not usual is shown."""

    def to_representation(self, data: Any) -> list[dict[str, Any]]:
        said = {place: when for when, place in WHEN.items()}
        return [{"when": said[entry.pop("place")], **entry} for entry in read_hooks(data.instance)]

    def to_internal_value(self, data: Any) -> list[dict[str, Any]]:
        return [{"place": WHEN[entry.pop("when")], **entry} for entry in super().to_internal_value(data)]


class HookEntrySerializer(StrictSerializer):
    """A stored function that is asked at a place of the agent's runs (docs/howto/hooks.md)."""

    when = Choice(choices=list(WHEN))
    function = Text(max_length=64)
    tools = Words(each=64, max_length=50, required=False)
    pinned_version = Whole(min_value=1, max_value=2**31 - 1, allow_null=True, required=False)
    position = Whole(min_value=0, max_value=32_767, required=False)
    timeout_s = Number(min_value=0.05, max_value=30, required=False)
    enabled = Flag(required=False)

    class Meta:
        list_serializer_class = HooksSerializer


class AgentSerializer(OwnedSerializer):
    provider = Text(max_length=64, source="provider.name", help_text="Name of a provider that you can use.")
    model_params = ModelParamsSerializer(required=False)
    fallback_models = Words(required=False, each=100, max_length=10)
    capabilities = Words(required=False, each=64)
    examples = Words(required=False, each=2000)
    delegates_to = Words(required=False, each=64)
    input_schema = OptionalSchemaField()
    output_schema = OptionalSchemaField()
    variables = VariablesField(required=False)
    timeout = Number(
        required=False, min_value=0.1, max_value=settings.MAX_RUN_S, help_text="Time limit of a run in seconds."
    )
    grants = GrantSerializer(many=True, required=False)
    hooks = HookEntrySerializer(  # type: ignore[call-arg]  # of its list
        many=True, required=False, max_length=LIMIT,
        help_text="They take effect at once, without publishing. A request that leaves the field out keeps them.",
    )  # fmt: skip
    published_version = serializers.IntegerField(source="published.number", read_only=True, allow_null=True)

    class Meta:
        model = Agent
        fields = [
            "name", "description", "system_prompt", "provider", "model_name", "model_params", "fallback_models",
            "input_schema", "output_schema", "variables", "capabilities", "examples", "delegates_to", "max_steps",
            "timeout", "max_chain_depth", "max_agent_depth", "session_context", "context_messages", "context_tokens",
            "memory", "memory_tokens", "pool", "max_running", "public_card", "a2a_reply", "enabled", "grants", "hooks",
            "published_version", *OWNED,
        ]  # fmt: skip
        extra_kwargs = {
            "description": {"max_length": 10_000},
            "system_prompt": {"max_length": 200_000, "trim_whitespace": False},
            "context_tokens": {"min_value": 100, "max_value": 2_000_000},
        }

    def validate_provider(self, name: str) -> Provider:
        return named(Provider, self.context["request"].user, name)

    def validate_grants(self, grants: list[dict[str, Any]]) -> list[ToolGrant]:
        return read_grants(self.context["request"].user, grants)

    def create(self, validated: dict[str, Any]) -> Agent:
        grants, hooks = validated.pop("grants", []), validated.pop("hooks", [])
        agent = super().create(with_provider(validated))
        replace_grants(agent, grants)
        write_hooks(agent, hooks, owner=agent.owner)
        return agent

    def update(self, agent: Agent, validated: dict[str, Any]) -> Agent:
        grants = validated.pop("grants", [] if self.replaces else None)
        hooks = validated.pop("hooks", None)
        agent = super().update(agent, with_provider(validated))
        if grants is not None:
            replace_grants(agent, grants)
        if hooks is not None:
            write_hooks(agent, hooks, owner=agent.owner)
        return agent


def with_provider(validated: dict[str, Any]) -> dict[str, Any]:
    """`source="provider.name"` would nest the row one level too deep."""
    return {**validated, "provider": validated["provider"]["name"]} if "provider" in validated else validated


def named(model: Any, user: Any, name: str) -> Any:
    """The row meant by a name in a body; an unknown name is an invalid body (422), not a missing
    path.
    """
    try:
        return model.objects.for_use(user, name)
    except (NotFound, Forbidden) as error:
        raise serializers.ValidationError(str(error), code="unknown")


class ToolSerializer(serializers.ModelSerializer):
    input_schema = ObjectField(read_only=True)
    output_schema = OptionalSchemaField(read_only=True)
    source = ObjectField(read_only=True)
    owner = serializers.SlugRelatedField(slug_field="username", read_only=True, allow_null=True)
    team = serializers.SlugRelatedField(slug_field="name", read_only=True, allow_null=True)

    class Meta:
        model = Tool
        fields = [
            "name", "kind", "description", "input_schema", "output_schema", "effect", "source", "definition_hash",
            "enabled", "untrusted", "record_fields", "deadline_s", "owner", "team",
        ]  # fmt: skip


class KeySerializer(StrictModelSerializer):
    id = RowId(read_only=True)
    name = Text(max_length=100, required=False, allow_blank=True, help_text="What it is for.")
    scopes = Words(
        each=40, min_length=1, help_text='For example ["messages:write"]; "*" is everything except approvals:decide.'
    )
    is_live = serializers.SerializerMethodField()

    class Meta:
        model = ApiKey
        fields = ["id", "name", "prefix", "scopes", "expires_at", "revoked_at", "last_used_at", "created_at", "is_live"]
        read_only_fields = ["prefix", "revoked_at", "last_used_at", "created_at"]

    def get_is_live(self, key: ApiKey) -> bool:
        return key.is_live()

    def validate_scopes(self, scopes: list[str]) -> list[str]:
        """Only known scopes, and no more than the requesting key has."""
        if wrong := unknown_scopes(scopes):
            raise serializers.ValidationError(f"Unknown: {', '.join(wrong)}.", code="unknown_scope")
        asking = self.context["request"].auth
        if isinstance(asking, ApiKey) and not all(asking.allows(scope) for scope in scopes):
            raise Forbidden("A key cannot give another key more than it has itself.", code="scope")
        return list(dict.fromkeys(scopes))

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        """No longer than the key that asks lives itself; one without a date takes over its end."""
        asking = self.context["request"].auth
        end = asking.expires_at if isinstance(asking, ApiKey) else None
        if end and (fields.get("expires_at") or end) > end:
            raise Forbidden(
                "A key cannot make a key that lives longer than itself.", code="expiry", hint=f"It ends at {end}."
            )
        return {**fields, "expires_at": fields.get("expires_at") or end}


class NewKeySerializer(KeySerializer):
    key = serializers.CharField(read_only=True, source="secret", help_text="Copy it now: it is shown only once.")

    class Meta(KeySerializer.Meta):
        fields = [*KeySerializer.Meta.fields, "key"]


class SecretSerializer(OwnedSerializer):
    value = Text(write_only=True, max_length=20_000, trim_whitespace=False, help_text="Never shown again.")
    hosts = Words(required=False, each=253, help_text="Hosts it may be sent to.")
    has_value = serializers.SerializerMethodField(help_text="False: enter the value again before it can be used.")

    class Meta:
        model = Secret
        fields = ["name", "value", "has_value", "hosts", "header", "template", *OWNED]

    def get_has_value(self, secret: Secret) -> bool:
        return bool(secret.value)

    def update(self, secret: Secret, validated: dict[str, Any]) -> Secret:
        """The value does not follow to another host or into another header: enter it again with the change."""
        now = {name: validated.get(name, getattr(secret, name)) for name in ("hosts", "header", "template")}
        if secret.needs_value(**now):
            validated = {"value": "", **validated}
        return super().update(secret, validated)


class PromptSerializer(OwnedSerializer):
    """`text` may contain places such as {{city}}; `variables` lists them."""

    text = Text(max_length=LENGTH, trim_whitespace=False)
    variables = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Prompt
        fields = ["name", "description", "text", "variables", *OWNED]


class MemberSerializer(StrictSerializer):
    user = Text(max_length=150, source="user.username")
    role = Choice(choices=Membership.Role.choices, default=Membership.Role.AUTHOR)


class TeamSerializer(StrictModelSerializer):
    name = Text(max_length=64)
    members = MemberSerializer(
        many=True, required=False, source="memberships", help_text="The whole list: who is left out is removed."
    )

    class Meta:
        model = Team
        fields = ["name", "max_running", "members", "created_at"]

    def validate_name(self, name: str) -> str:
        for check in Team._meta.get_field("name").validators:
            check(name)
        if Team.objects.filter(name=name).exclude(pk=self.instance.pk if self.instance else None).exists():
            raise Conflict(f"Another team is called “{name}” already.", code="name_taken")
        return name

    def create(self, validated: dict[str, Any]) -> Team:
        """Whoever makes a team administers it; other people are invited."""
        user = self.context["request"].user
        roles = roles_of(validated.pop("memberships", []))
        team = super().create(validated)
        Membership.objects.create(team=team, user=user, role=Membership.Role.ADMINISTRATOR)
        set_roles(team, {user.get_username(): Membership.Role.ADMINISTRATOR, **roles})
        return team

    def update(self, team: Team, validated: dict[str, Any]) -> Team:
        members = validated.pop("memberships", None)
        if members is None and self.replaces:
            raise serializers.ValidationError({"members": REQUIRED}, code="required")
        team = super().update(team, validated)
        if members is not None:
            set_roles(team, roles_of(members))
            team._prefetched_objects_cache = {}
        return team


def roles_of(members: list[dict[str, Any]]) -> dict[str, str]:
    return {member["user"]["username"]: member.get("role", Membership.Role.AUTHOR) for member in members}


class InvitationSerializer(StrictModelSerializer):
    id = RowId(read_only=True)
    team = serializers.SlugRelatedField(slug_field="name", read_only=True)
    user = Text(max_length=150, source="user.username", help_text="The exact user name.")
    role = Choice(choices=Membership.Role.choices, default=Membership.Role.AUTHOR)
    invited_by = serializers.SlugRelatedField(slug_field="username", read_only=True)

    class Meta:
        model = Invitation
        fields = ["id", "team", "user", "role", "invited_by", "status", "created_at", "answered_at"]
        read_only_fields = ["status", "created_at", "answered_at"]


class AuditSerializer(serializers.ModelSerializer):
    id = RowId(read_only=True)
    actor = serializers.CharField(source="actor_name")
    details = ObjectField(read_only=True)

    class Meta:
        model = AuditEvent
        fields = ["id", "at", "actor", "action", "subject_kind", "subject_id", "subject_name", "details", "source"]


class MeTeamSerializer(serializers.Serializer):
    team = serializers.CharField(source="team.name")
    role = serializers.CharField()


class MeSerializer(serializers.Serializer):
    username = serializers.CharField()
    email = serializers.CharField()
    is_superuser = serializers.BooleanField()
    role = serializers.ChoiceField(
        choices=roles.ROLES, help_text="On the site: viewer, operator, author, administrator."
    )
    scopes = serializers.ListField(child=serializers.CharField(), help_text="Of the key used; a login session has all.")
    key = serializers.CharField(allow_null=True, help_text="Prefix of the key used.")
    teams = MeTeamSerializer(many=True)
