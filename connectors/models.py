"""Linked accounts and servers, the messages delivered from them, and the tools that remote servers
offer.
"""

from datetime import datetime, timedelta
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from agents.diff import changes
from agents.fields import EncryptedTextField
from agents.models import Tool
from agents.models.team import Owned, OwnedQuerySet, check_name, one_name_per_owner
from plumbing.stored_rows import StoredRow

# Warning time before a login expires.
WARN = timedelta(days=3)
# Changes of a tool that are shown at once.
MOST_CHANGES = 30
# Providers with a login; the others are servers with an address.
ACCOUNTS = ("gmail", "outlook", "teams")


class ConnectionQuerySet(OwnedQuerySet):
    def of_provider(self, user: Any, provider: str) -> Self:
        """The connections that a call by this user may use: own first, then the site's, then
        a team's.
        """
        usable = self.usable_by(user).filter(provider=provider, enabled=True)
        return usable.nearest_first(user)


class Connection(Owned):
    class Provider(models.TextChoices):
        GMAIL = "gmail", "Gmail"
        OUTLOOK = "outlook", "Outlook mail"
        TEAMS = "teams", "Microsoft Teams"
        MCP = "mcp", "MCP server"
        OPENAPI = "openapi", "HTTP service (OpenAPI)"
        A2A = "a2a", "Remote agent (A2A)"

    class Health(models.TextChoices):
        UNKNOWN = "unknown", "never used"
        OK = "ok", "works"
        EXPIRING = "expiring", "login expires soon: reconnect"
        BROKEN = "broken", "not working: reconnect"

    name = models.CharField(max_length=64, validators=[check_name])
    provider = models.CharField(max_length=12, choices=Provider.choices)
    base_url = models.CharField(
        max_length=500, blank=True,
        help_text="The address of an MCP server, HTTP service or remote agent. Changing it clears the "
            "secret's name and every approval.",
    )  # fmt: skip
    config = models.JSONField(default=dict, blank=True, help_text='For example {"command": ["mcp-server-time"]}.')
    secret_name = models.CharField(
        max_length=64, blank=True, help_text="The name of a secret bound to the server's host."
    )
    account = models.CharField(max_length=254, blank=True, help_text="The account's name, as reported by the service.")
    scopes = models.JSONField(default=list, blank=True, editable=False)
    access_token = EncryptedTextField(blank=True, editable=False)
    refresh_token = EncryptedTextField(blank=True, editable=False)
    token_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    login_ends_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When the refresh token expires, if the service says so."
    )
    login = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text="The login of an MCP server, and our client there.",
    )
    login_secret = EncryptedTextField(blank=True, editable=False)
    token_version = models.PositiveIntegerField(default=0, editable=False)
    refreshing_until = models.DateTimeField(null=True, blank=True, editable=False)
    cursor = models.JSONField(
        default=dict, blank=True, editable=False, help_text="The position up to which each stream was read."
    )
    health = models.CharField(max_length=8, choices=Health.choices, default=Health.UNKNOWN, editable=False)
    last_error = models.CharField(max_length=500, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    enabled = models.BooleanField(default=True)

    objects = ConnectionQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("connection")

    def __str__(self) -> str:
        return self.name

    def listed_as(self) -> dict[str, Any]:
        return {"remote__connection": self.pk}

    def is_personal(self) -> bool:
        return self.uses_oauth

    @property
    def uses_oauth(self) -> bool:
        """A cloud account, or an MCP server with its own login."""
        return self.provider in ACCOUNTS or bool(self.login)

    @property
    def offers_tools(self) -> bool:
        """True for servers; the tools of cloud accounts are known."""
        return self.provider not in ACCOUNTS

    @property
    def is_read(self) -> bool:
        """True for servers that list their tools themselves."""
        return self.provider in (Connection.Provider.MCP, Connection.Provider.A2A)

    @property
    def is_imported(self) -> bool:
        """True for services whose tools come from a document."""
        return self.provider == Connection.Provider.OPENAPI

    @property
    def is_linked(self) -> bool:
        """Whether it has what a call needs."""
        if not self.uses_oauth:
            return True
        return bool(self.access_token or self.refresh_token)

    def token_lives(self, now: datetime, refused: str = "") -> bool:
        """Whether this access token may be sent: not the `refused` one, and not one that expires
        within a minute.
        """
        if not self.access_token or self.access_token == refused:
            return False
        if self.token_expires_at is None:
            return True
        return self.token_expires_at - now > timedelta(seconds=60)

    def want_login(self, scopes: list[str]) -> None:
        """Record that the server requires a login, and which scopes are missing: the next login
        asks for them too.
        """
        missing_scopes = [*self.login.get("more_scopes", []), *scopes]
        each_once = list(dict.fromkeys(missing_scopes))
        self.login = {**self.login, "more_scopes": each_once[:50]}
        Connection.objects.filter(pk=self.pk).update(login=self.login)
        if scopes:
            self.mark_broken(f"The login lacks {', '.join(scopes)}.")
        else:
            self.mark_broken("The server requires a login.")

    def forget_client(self) -> None:
        """The login service no longer knows our client: the next login registers again."""
        login = dict(self.login)
        login.pop("client_id", None)
        self.login = login
        Connection.objects.filter(pk=self.pk).update(login=login)

    def forget_login(self) -> None:
        """The server changed, or a secret replaces the login."""
        self.login, self.login_secret = {}, ""
        self.save(update_fields=["login", "login_secret"])
        self.authorizations.filter(used_at=None).delete()
        self.forget_tokens()

    def mark_ok(self, now: datetime | None = None) -> None:
        now = now or timezone.now()
        health = self.Health.OK
        if self.login_ends_at is not None and self.login_ends_at - now < WARN:
            health = self.Health.EXPIRING
        self.note_health(health, "", now)

    def mark_broken(self, reason: str) -> None:
        self.note_health(self.Health.BROKEN, reason, timezone.now())

    def note_health(self, health: str, error: str, now: datetime) -> None:
        """Written when it changes, otherwise at most once a minute: a sync of 1,000 messages must
        not cause 1,000 updates.
        """
        is_fresh = self.checked_at is not None and now - self.checked_at < timedelta(minutes=1)
        is_same = (health, error) == (self.health, self.last_error)
        if is_fresh and is_same:
            return
        self.health = health
        self.last_error = error[:500]
        self.checked_at = now
        rows = Connection.objects.filter(pk=self.pk)
        rows.update(health=health, last_error=self.last_error, checked_at=now)

    def forget_tokens(self, *, keeps_scopes: bool = False) -> None:
        """The scopes are kept, so the next login asks for the same."""
        self.access_token = self.refresh_token = ""
        self.token_expires_at = self.login_ends_at = self.refreshing_until = None
        if not keeps_scopes:
            self.scopes = []
        self.save(
            update_fields=[
                "access_token", "refresh_token", "token_expires_at", "login_ends_at", "scopes", "refreshing_until",
            ]
        )  # fmt: skip
        # A refresh that is under way sees the new number and does not store its tokens.
        Connection.objects.filter(pk=self.pk).update(token_version=F("token_version") + 1)


class AuthorizationQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(user_id=user.pk)


class Authorization(StoredRow):
    """A started login: what the callback must return, once and in time."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    provider = models.CharField(max_length=12, choices=Connection.Provider.choices)
    state_hash = models.CharField(max_length=64, unique=True)
    verifier = EncryptedTextField(blank=True)
    device_code = EncryptedTextField(blank=True)
    scopes = models.JSONField(default=list)
    name = models.CharField(max_length=64, blank=True)
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, null=True, related_name="authorizations")
    interval_s = models.PositiveIntegerField(default=5)
    next_poll_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = AuthorizationQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.user} to {self.provider}"

    def use_up(self, now: datetime) -> bool:
        """True for the first caller only: a replayed callback gets False."""
        rows = Authorization.objects.filter(pk=self.pk, used_at=None, expires_at__gt=now)
        return rows.update(used_at=now) == 1


class DeliveredQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(connection__in=Connection.objects.visible_to(user))


class DeliveredItem(models.Model):
    """The ledger: each message once, found → claimed by a call → delivered. See
    connectors/accounts/ledger.py.
    """

    class State(models.TextChoices):
        FOUND = "found"
        CLAIMED = "claimed"
        DELIVERED = "delivered"
        GONE = "gone", "deleted before it was read"
        FAILED = "failed", "could not be read"

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="items")
    external_id = models.CharField(max_length=512)
    stream = models.CharField(max_length=16, help_text="The filters that found it.")
    place = models.CharField(max_length=512, blank=True, help_text="The folder, channel or chat that contains it.")
    state = models.CharField(max_length=9, choices=State.choices, default=State.FOUND)
    claimed_by = models.CharField(max_length=64, blank=True, help_text="Id of the tool call.")
    claimed_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    error = models.CharField(max_length=300, blank=True)
    found_at = models.DateTimeField(auto_now_add=True)

    objects = DeliveredQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["connection", "external_id"], name="item_delivered_once"),
        ]
        indexes = [
            models.Index(
                fields=["connection", "stream", "id"], condition=Q(state__in=["found", "claimed"]), name="item_waiting"
            ),
            models.Index(fields=["connection", "claimed_by"], name="item_claimed"),
        ]

    def __str__(self) -> str:
        return f"{self.external_id} ({self.state})"


class RemoteQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(connection__in=Connection.objects.visible_to(user))


class RemoteTool(StoredRow):
    """A tool offered by a server. The approved definition is `pinned`; the current one is
    `offered`.
    """

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="remote_tools")
    remote_name = models.CharField(max_length=256)
    tool = models.OneToOneField(Tool, on_delete=models.PROTECT, null=True, related_name="remote")
    offered = models.JSONField(default=dict)
    offered_hash = models.CharField(max_length=64)
    pinned_hash = models.CharField(max_length=64)
    approved_hash = models.CharField(max_length=64, blank=True)
    approved_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    approved_at = models.DateTimeField(null=True)
    is_offered = models.BooleanField(default=True)
    is_withheld = models.BooleanField(
        default=False, help_text="Switched off because it changed or disappeared, not by a user."
    )
    calls = models.PositiveBigIntegerField(default=0)
    failures = models.PositiveBigIntegerField(default=0)
    total_ms = models.FloatField(default=0)
    last_error = models.CharField(max_length=300, blank=True)
    seen_at = models.DateTimeField(auto_now=True)

    objects = RemoteQuerySet.as_manager()

    class Meta:
        ordering = ["remote_name"]
        constraints = [models.UniqueConstraint(fields=["connection", "remote_name"], name="remote_tool_once")]

    def __str__(self) -> str:
        return f"{self.connection}: {self.remote_name}"

    @property
    def is_changed(self) -> bool:
        return self.offered_hash != self.pinned_hash

    def list_changes(self) -> list[dict[str, Any]]:
        """Where what the server offers now differs from what is approved: `path`, `from`, `to`; [] if it does not."""
        if self.tool is None or not self.is_changed:
            return []
        fields = ("description", "input_schema", "output_schema")
        approved = {name: getattr(self.tool, name) for name in fields}
        offered = {name: self.offered.get(name) for name in fields}
        return changes(approved, offered)[:MOST_CHANGES]

    @property
    def suggested_effect(self) -> str:
        """The approved effect; before the approval the effect that the server claims."""
        if self.tool is not None and self.approved_hash == self.offered_hash:
            return self.tool.effect
        return str(self.offered.get("effect", ""))

    def count(self, wall_ms: float, error: str = "") -> None:
        """Count one call in the metrics."""
        changes: dict[str, Any] = {"calls": F("calls") + 1, "total_ms": F("total_ms") + wall_ms}
        if error:
            changes["failures"] = F("failures") + 1
            changes["last_error"] = error[:300]
        RemoteTool.objects.filter(pk=self.pk).update(**changes)


class RemoteTaskQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(connection__in=Connection.objects.visible_to(user))


class RemoteTask(StoredRow):
    """The task at a remote agent (A2A) that a call has started; `id` is the call's."""

    id = models.UUIDField(primary_key=True, editable=False)
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="+")
    task = models.CharField(max_length=200, blank=True, help_text="Empty: it is unknown whether the agent has it.")
    answers = models.PositiveSmallIntegerField(default=0, help_text="Answers that were sent to it.")
    waits = models.PositiveIntegerField(default=0, help_text="How often the run has waited for it.")
    is_open = models.BooleanField(default=True, help_text="The agent may still be at work.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = RemoteTaskQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["id"], condition=models.Q(is_open=True), name="remote_task_open")]

    def __str__(self) -> str:
        return self.task or "unknown"

    def close(self) -> None:
        self.is_open = False
        self.save(update_fields=["is_open"])
