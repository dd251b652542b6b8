"""Connections as JSON. Tokens are never included."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from agents.http.strict import Choice, ObjectField, RowId, StrictSerializer, Text, Words
from agents.models import Tool
from agents.serializers.owned import OWNED, OwnedSerializer
from agents.unknown import extra
from connectors.logins.providers import ACCESS
from connectors.mcp.programs import command_refusal
from plumbing.http.addresses import url_refusal

from .exceptions import reconnect_link
from .models import Connection, RemoteTool

CONFIG = ("command", "client_id")
SERVERS = [Connection.Provider.MCP, Connection.Provider.OPENAPI, Connection.Provider.A2A]


class ConnectionSerializer(OwnedSerializer):
    id = RowId(read_only=True)
    provider = Choice(choices=Connection.Provider.choices)
    base_url = Text(required=False, allow_blank=True, max_length=500)
    config = ObjectField(
        required=False,
        help_text='A local program: {"command": ["program", "word"]}. For an MCP server whose login '
        'does not register clients: {"client_id": "…"}, with the secret of the client as secret_name.',
    )
    secret_name = Text(required=False, allow_blank=True, max_length=64, help_text="A secret bound to the host.")
    scopes = serializers.ListField(child=serializers.CharField(), read_only=True)
    is_linked = serializers.BooleanField(read_only=True)
    reconnect = serializers.SerializerMethodField(
        help_text="Address to log in again; null if the connection has no login."
    )

    class Meta:
        model = Connection
        fields = [
            "id", "name", "provider", "base_url", "config", "secret_name", "account", "scopes", "health", "last_error",
            "checked_at", "token_expires_at", "login_ends_at", "is_linked", "reconnect", "enabled", *OWNED,
        ]  # fmt: skip
        read_only_fields = ["account", "health", "last_error", "checked_at", "token_expires_at", "login_ends_at"]

    def get_reconnect(self, connection: Connection) -> str | None:
        if not connection.uses_oauth:
            return None
        return reconnect_link(connection)

    def validate(self, body: dict[str, Any]) -> dict[str, Any]:
        """Fields for adding a server; a cloud account is added by logging in, not here."""
        # A change names only some fields: the others are those of the row, or of a new one.
        connection = self.instance or Connection(provider="")
        provider = body.get("provider", connection.provider)
        if self.instance and provider != connection.provider:
            raise serializers.ValidationError({"provider": ["The provider of a connection cannot be changed."]})
        if provider not in SERVERS:
            return self.of_account(body)
        base_url = body.get("base_url", connection.base_url)
        config = body.get("config", connection.config)
        if unknown := extra(body.get("config"), CONFIG):
            faults = {name: [ErrorDetail(why, "unknown_field")] for name, why in unknown.items()}
            raise serializers.ValidationError({"config": faults})
        if base_url:
            self.check_url(base_url)
            self.check_client(config.get("client_id", ""))
        elif provider == Connection.Provider.A2A:
            raise serializers.ValidationError({"base_url": ["A remote agent needs its address."]})
        elif provider == Connection.Provider.MCP:
            self.check_command(config.get("command"))
        return body

    def of_account(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.instance is None:
            raise serializers.ValidationError({"provider": ["Connect this account through its authorize endpoint."]})
        if body.get("base_url") or body.get("config") or body.get("secret_name"):
            raise serializers.ValidationError(
                {"base_url": ["The address of a cloud service is part of the site's settings."]}
            )
        return body

    def check_url(self, url: str) -> None:
        if reason := url_refusal(url, settings.PRIVATE_HOSTS_ALLOWED):
            raise serializers.ValidationError({"base_url": [reason]})
        if urlsplit(url).fragment:
            raise serializers.ValidationError({"base_url": ["An address cannot have a fragment."]})

    def check_client(self, client_id: Any) -> None:
        if not isinstance(client_id, str) or len(client_id) > 1000:
            raise serializers.ValidationError({"config": ["client_id is a text of at most 1,000 characters."]})

    def check_command(self, command: Any) -> None:
        reason = command_refusal(command, settings.MCP_COMMANDS)
        if reason:
            raise serializers.ValidationError({"config": [reason]})


class ScopeSerializer(serializers.Serializer):
    scope = serializers.CharField()
    access = serializers.ChoiceField(choices=ACCESS)
    why = serializers.CharField()


class AskedScopeSerializer(ScopeSerializer):
    access = serializers.ChoiceField(choices=ACCESS, allow_null=True, help_text="null unless it is an MCP server.")


class ServiceSerializer(serializers.Serializer):
    provider = serializers.CharField()
    title = serializers.CharField()
    is_configured = serializers.BooleanField(help_text="Whether the site has an OAuth client for it.")
    scopes = ScopeSerializer(many=True)
    tools = serializers.ListField(child=serializers.CharField())


class ServicesSerializer(serializers.Serializer):
    results = ServiceSerializer(many=True)
    next = serializers.URLField(allow_null=True)


class AuthorizeSerializer(StrictSerializer):
    access = Words(required=False, each=10, max_length=3, help_text="Any of read, write, send; read by default.")
    name = Text(required=False, max_length=64, help_text="A name for the connection.")
    connection = RowId(required=False, allow_null=True, help_text="A connection to log in again.")

    def validate_name(self, name: str) -> str:
        for check in Connection._meta.get_field("name").validators:
            check(name)
        return name


class AuthorizationSerializer(serializers.Serializer):
    url = serializers.URLField(help_text="Open it in the browser in which you are signed in.")
    scopes = AskedScopeSerializer(many=True, help_text="The permissions that will be requested, and why.")
    expires_at = serializers.DateTimeField()


class CallbackSerializer(serializers.Serializer):
    """Additional parameters that a service sends (scope, session_state, …) are ignored."""

    state = Text(max_length=200)
    code = Text(required=False, allow_blank=True, max_length=4000, default="")
    error = Text(required=False, allow_blank=True, max_length=500, default="")
    iss = Text(
        required=False, allow_blank=True, max_length=2000, default="", help_text="The issuer, if the service sends it."
    )


class DeviceLoginSerializer(serializers.Serializer):
    id = RowId()
    user_code = serializers.CharField(help_text="Enter it at the address.")
    verification_uri = serializers.CharField()
    interval = serializers.IntegerField(help_text="Seconds between two requests.")
    expires_at = serializers.DateTimeField()


class DevicePollSerializer(StrictSerializer):
    id = RowId()


class PendingSerializer(serializers.Serializer):
    status = serializers.CharField()


class HealthSerializer(serializers.Serializer):
    health = serializers.CharField()
    last_error = serializers.CharField()
    account = serializers.CharField()
    checked_at = serializers.DateTimeField(allow_null=True)
    login_ends_at = serializers.DateTimeField(allow_null=True)
    reconnect = serializers.CharField(allow_null=True)


class RevokedSerializer(serializers.Serializer):
    told_service = serializers.BooleanField(help_text="False: remove the access in the account's own settings as well.")


class RemoteToolSerializer(serializers.ModelSerializer):
    name = serializers.CharField(source="remote_name")
    tool = serializers.SlugRelatedField(slug_field="name", read_only=True)
    effect = serializers.CharField(source="tool.effect", read_only=True, help_text="The approved definition.")
    enabled = serializers.BooleanField(source="tool.enabled", read_only=True)
    offered = ObjectField(read_only=True, help_text="The current definition; its effect is the server's claim.")
    sha256 = serializers.CharField(source="offered_hash")
    is_approved = serializers.SerializerMethodField()
    is_changed = serializers.BooleanField(read_only=True)
    mean_ms = serializers.SerializerMethodField()

    class Meta:
        model = RemoteTool
        fields = [
            "name", "tool", "effect", "enabled", "offered", "sha256", "is_approved", "is_changed", "is_offered",
            "approved_at", "calls", "failures", "mean_ms", "last_error", "seen_at",
        ]  # fmt: skip

    def get_is_approved(self, row: RemoteTool) -> bool:
        return row.approved_hash == row.offered_hash

    def get_mean_ms(self, row: RemoteTool) -> float:
        if not row.calls:
            return 0.0
        return round(row.total_ms / row.calls, 1)


class ApproveSerializer(StrictSerializer):
    sha256 = Text(max_length=64, help_text="Hash of the definition you looked at.")
    effect = Choice(
        choices=Tool.Effect.choices, required=False, help_text="The effect to assign; default: the claimed one."
    )


class ListingSerializer(serializers.Serializer):
    new = serializers.ListField(child=serializers.CharField())
    changed = serializers.ListField(child=serializers.CharField(), help_text="Switched off until approved.")
    gone = serializers.ListField(child=serializers.CharField())
    refused = serializers.ListField(
        child=serializers.DictField(child=serializers.CharField()), help_text="Name and reason of each that is no tool."
    )
    usable = serializers.IntegerField(help_text="How many are tools now.")
    total = serializers.IntegerField(help_text="How many were offered.")


class OperationSerializer(serializers.Serializer):
    name = serializers.CharField()
    description = serializers.CharField()
    effect = serializers.CharField(
        help_text="Of a known operation the approved one, else read from the method; an import or approval can choose."
    )
    state = serializers.ChoiceField(["new", "changed", "known", "refused"])
    reason = serializers.CharField(help_text="Why it is refused.")


class ImportPreviewSerializer(serializers.Serializer):
    base_url = serializers.CharField(help_text="Where calls will go.")
    usable = serializers.IntegerField(help_text="How many of the operations can become tools.")
    total = serializers.IntegerField()
    operations = OperationSerializer(many=True)


class ImportSerializer(StrictSerializer):
    document = ObjectField(required=False, help_text="The OpenAPI 3 or Swagger 2.0 document as JSON.")
    text = Text(required=False, max_length=900_000, trim_whitespace=False, help_text="Or as JSON or YAML text.")
    url = Text(required=False, max_length=2000, help_text="Or where it is.")
    base_url = Text(
        required=False, allow_blank=True, max_length=500, help_text="Used instead of the document's server."
    )
    operations = Words(required=False, each=256, max_length=200, help_text="Operations to import; all by default.")
    effects = ObjectField(
        required=False,
        help_text="Effects of new operations by name, instead of those read from the method. Known ones keep theirs.",
    )

    def validate_effects(self, effects: dict[str, Any]) -> dict[str, str]:
        wrong = [name for name, effect in effects.items() if effect not in Tool.Effect.values]
        if wrong:
            raise serializers.ValidationError(f"{wrong[0][:256]}: choose one of {', '.join(Tool.Effect.values)}.")
        return effects

    def validate(self, body: dict[str, Any]) -> dict[str, Any]:
        sources = [name for name in ("document", "text", "url") if body.get(name)]
        if len(sources) != 1:
            raise serializers.ValidationError("Send one of document, text and url.")
        return body
