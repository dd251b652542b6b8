"""One's own account over HTTP: settings, and the browsers that show notices."""

from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.response import Response

from agents.exceptions import Conflict
from agents.http import viewsets
from agents.http.strict import Choice, StrictModelSerializer, StrictSerializer, Text
from agents.http.throttles import client_address
from agents.http.viewsets import APIView, Audited, read_body
from agents.models import AuditEvent, Preference
from runs.models import PushSubscription
from runs.rules.timing import TimingError, zone_named
from runs.worker.notices import push

# Of one person.
BROWSERS = 20


def https(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username is not None:
        raise serializers.ValidationError("Write an address that starts with https://.", code="invalid")
    return url


class SettingsSerializer(StrictModelSerializer):
    language = Choice(choices=[("", "as the browser"), *settings.LANGUAGES], required=False, allow_blank=True)
    zone = Text(max_length=64, required=False, allow_blank=True, help_text="IANA name; empty: the browser's.")
    teams_url = Text(
        max_length=2000, required=False, allow_blank=True, write_only=True,
        help_text="Address of a Teams workflow that posts notices; empty removes it. It is never shown.",
    )  # fmt: skip
    updated_at = serializers.DateTimeField(read_only=True, allow_null=True, help_text="Null: nothing was ever set.")
    teams_notices = serializers.SerializerMethodField(help_text="Whether there is such an address.")

    class Meta:
        model = Preference
        fields = ["language", "zone", "email_notices", "push_notices", "teams_url", "teams_notices", "updated_at"]

    def get_teams_notices(self, preference: Preference) -> bool:
        return bool(preference.teams_url)

    def validate_zone(self, name: str) -> str:
        if not name:
            return ""
        try:
            return str(zone_named(name))
        except TimingError as error:
            raise serializers.ValidationError(str(error), code="invalid")

    def validate_teams_url(self, url: str) -> str:
        if not url:
            return ""
        return https(url)


class SettingsView(APIView):
    """Language, time zone, and how this person is notified when a run waits."""

    scope = "account"

    @extend_schema(operation_id="account_settings_retrieve", responses=SettingsSerializer)
    def get(self, request: Any) -> Response:
        preference = Preference.of(request.user)
        return Response(SettingsSerializer(preference).data)

    @extend_schema(
        operation_id="account_settings_update", request=SettingsSerializer, responses={200: SettingsSerializer}
    )
    def patch(self, request: Any) -> Response:
        """Change what is named; the rest stays."""
        preference = change_preferences(request, request.data)
        return Response(SettingsSerializer(preference).data)


def change_preferences(request: Any, data: Any) -> Preference:
    """The saved row. Raises ValidationError."""
    preference = Preference.of(request.user)
    serializer = SettingsSerializer(preference, data=data, partial=True)
    serializer.is_valid(raise_exception=True)
    preference = serializer.save()
    changed = sorted(serializer.validated_data)
    AuditEvent.record(
        "account.changed", request.user, actor=request.user, source=client_address(request), fields=changed
    )
    return preference


class KeysSerializer(StrictSerializer):
    p256dh = Text(max_length=120, help_text="The browser's public key: a point of P-256, as base64url.")
    auth = Text(max_length=40, help_text="Its secret of 16 bytes, as base64url.")

    def validate_p256dh(self, text: str) -> str:
        if not push.is_point(text):
            raise serializers.ValidationError("This is not a public key of P-256 in base64url.", code="invalid")
        return text

    def validate_auth(self, text: str) -> str:
        try:
            length = len(push.from_text(text))
        except ValueError:
            length = 0
        if length != 16:
            raise serializers.ValidationError("These are not 16 bytes in base64url.", code="invalid")
        return text


class SubscriptionSerializer(StrictSerializer):
    id = serializers.UUIDField(read_only=True)
    endpoint = Text(max_length=1000, write_only=True, help_text="The https address of the browser's push service.")
    keys = KeysSerializer(write_only=True)
    browser = Text(max_length=200, required=False, allow_blank=True, default="", help_text="A name for the list.")
    digest = serializers.CharField(read_only=True, help_text="SHA-256 of the endpoint, in hexadecimal digits.")
    created_at = serializers.DateTimeField(read_only=True)

    def validate_endpoint(self, url: str) -> str:
        return https(url)


class PublicKeySerializer(serializers.Serializer):
    public_key = serializers.CharField(help_text="The `applicationServerKey` to subscribe with, as base64url.")


class PushViewSet(Audited, mixins.ListModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet):
    """The browsers that show notices of this person (Web Push)."""

    scope = "account"
    serializer_class = SubscriptionSerializer
    queryset = PushSubscription.objects.none()

    def get_queryset(self) -> QuerySet[PushSubscription]:
        return PushSubscription.objects.visible_to(self.request.user)

    @extend_schema(request=SubscriptionSerializer, responses={201: SubscriptionSerializer})
    def create(self, request: Any) -> Response:
        """Add a browser. One that subscribes again replaces its row, also if it was another person's."""
        body = read_body(SubscriptionSerializer, request)
        # The address is stored encrypted, so it is found by its digest.
        digest = sha256(body["endpoint"].encode()).hexdigest()
        others = PushSubscription.objects.filter(owner=request.user).exclude(digest=digest)
        if others.count() >= BROWSERS:
            raise Conflict(
                f"You have {BROWSERS} browsers already.", code="too_many_browsers", hint="Remove one of them."
            )
        fields = {"owner": request.user, "endpoint": body["endpoint"], "browser": body["browser"], **body["keys"]}
        row, _ = PushSubscription.objects.update_or_create(digest=digest, defaults=fields)
        self.audit("created", row)
        return Response(SubscriptionSerializer(row).data, status=201)

    def perform_destroy(self, row: Any) -> None:
        self.audit("deleted", row)
        row.delete()

    @extend_schema(operation_id="account_push_key", responses=PublicKeySerializer, filters=False)
    def key(self, request: Any) -> Response:
        """The site's public key. Browsers subscribe with it."""
        return Response({"public_key": push.public_key()})
