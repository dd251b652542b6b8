"""Accounts as JSON: keys, secrets, prompts, teams, invitations, the audit log. Secrets are write-only."""

from typing import Any

from django.utils.translation import gettext_noop as _
from rest_framework import serializers

from agents import accounts, roles
from agents.exceptions import Conflict, Forbidden
from agents.http.strict import (
    REQUIRED,
    Choice,
    Flag,
    ObjectField,
    RowId,
    StrictModelSerializer,
    StrictSerializer,
    Text,
    Words,
)
from agents.membership import set_roles
from agents.models import (
    ApiKey,
    AuditEvent,
    Invitation,
    Membership,
    Prompt,
    Secret,
    Team,
    User,
)
from agents.models.key import unknown_scopes
from agents.models.prompt import LENGTH

from .owned import OWNED, OwnedSerializer


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
            raise Forbidden(
                _("A key cannot give another key more than it has itself."),
                code="scope",
                hint=_("Leave out the scopes that this key lacks, or use a key that has them."),
            )
        return list(dict.fromkeys(scopes))

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A key may not live longer than the key that creates it. Without a date it gets that key's
        expiry.
        """
        asking = self.context["request"].auth
        latest_end = asking.expires_at if isinstance(asking, ApiKey) else None
        end = fields.get("expires_at") or latest_end
        if latest_end and end > latest_end:
            raise Forbidden(
                _("A key cannot make a key that lives longer than itself."),
                code="expiry",
                hint=_("It ends at %(end)s.") % {"end": latest_end},
            )
        return {**fields, "expires_at": end}


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

    def get_fields(self) -> dict[str, Any]:
        """A PUT that leaves the value out keeps it, since no answer shows it."""
        fields = super().get_fields()
        fields["value"].required = self.instance is None
        return fields

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
    members = MemberSerializer(  # type: ignore[call-arg]
        many=True,
        required=False,
        max_length=1000,
        source="memberships",
        help_text="The whole list: others are removed.",
    )

    class Meta:
        model = Team
        fields = ["name", "max_running", "members", "created_at"]

    def validate_name(self, name: str) -> str:
        for check in Team._meta.get_field("name").validators:
            check(name)
        namesakes = Team.objects.filter(name=name)
        if self.instance:
            namesakes = namesakes.exclude(pk=self.instance.pk)
        if namesakes.exists():
            raise Conflict(
                _("Another team is called “%(name)s” already.") % {"name": name},
                code="name_taken",
                hint=_("Choose another name."),
            )
        return name

    def create(self, validated: dict[str, Any]) -> Team:
        """The person who creates a team administers it; other people are invited."""
        user = self.context["request"].user
        roles = roles_by_name(validated.pop("memberships", []))
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
            set_roles(team, roles_by_name(members))
            team._prefetched_objects_cache = {}
        return team


def roles_by_name(members: list[dict[str, Any]]) -> dict[str, str]:
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


class PersonTeamSerializer(serializers.Serializer):
    team = serializers.CharField(source="team.name")
    role = serializers.CharField()


class PersonSerializer(StrictModelSerializer):
    """An account, for administrators. Its name cannot be changed, because programs and keys use it."""

    username = Text(max_length=150, help_text="With which the person signs in.")
    email = serializers.EmailField(max_length=254, required=False, allow_blank=True)
    role = Choice(
        choices=Membership.Role.choices,
        source="site_role",
        required=False,
        help_text="On the site, not in a team; default: operator.",
    )
    is_active = Flag(required=False, help_text="False: deactivated, and signed out.")
    is_invitable = serializers.SerializerMethodField(help_text="Whether the account waits for its first password.")
    teams = PersonTeamSerializer(many=True, read_only=True, source="memberships")

    class Meta:
        model = User
        fields = [
            "username", "email", "role", "is_active", "is_superuser", "is_invitable", "teams", "last_login",
            "date_joined",
        ]  # fmt: skip
        read_only_fields = ["is_superuser", "last_login", "date_joined"]

    def get_is_invitable(self, person: User) -> bool:
        return accounts.may_be_invited(person)

    def validate_username(self, username: str) -> str:
        if self.instance is not None and username != self.instance.username:
            raise serializers.ValidationError("The name of an account cannot be changed.", code="read_only")
        return username


class InvitationLinkSerializer(serializers.Serializer):
    url = serializers.CharField(help_text="Where the person chooses a password. It works once.")
    expires_at = serializers.DateTimeField()


class ReceiverSerializer(StrictSerializer):
    to = Text(max_length=150, help_text="The exact name of the person who gets everything.")


class HandedOverSerializer(serializers.Serializer):
    rows = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()), help_text='{"agent": ["librarian"], …}'
    )


class BelongingSerializer(serializers.Serializer):
    kind = serializers.CharField()
    name = serializers.CharField()
    team = serializers.CharField(allow_null=True, help_text="With which it is shared.")
    moves = serializers.BooleanField(help_text="Whether handing over moves it; a mailbox stays.")


class BelongingTeamSerializer(serializers.Serializer):
    team = serializers.CharField()
    role = serializers.CharField()
    is_last = serializers.BooleanField(help_text="The team would have no administrator.")


class BelongingsSerializer(serializers.Serializer):
    rows = BelongingSerializer(many=True)
    counts = serializers.DictField(child=serializers.IntegerField(), help_text='Other rows: {"run": 12, "apikey": 1}.')
    teams = BelongingTeamSerializer(many=True)


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
