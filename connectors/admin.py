"""Connections, the tools that servers offer, the ledger. Accounts are linked by logging in; tokens are never shown."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as later
from django.utils.translation import gettext_noop as known

from agents.admin.authored import OWNER_FILTERS, SHARING
from agents.admin.base import pill
from agents.admin.owned import OwnedAdmin, ReadOnlyAdmin
from agents.exceptions import MusterError
from connectors.toolsets.mcp import drop_all
from plumbing.texts import translate

from . import remote
from .exceptions import reconnect_link
from .logins import oauth
from .models import Connection, DeliveredItem, RemoteTask, RemoteTool

HEALTH = {known("expiring"): "waiting", known("broken"): "failed", "unknown": "queued"}
HEALTH_FIELDS: list[Any] = [
    "health", "last_error", "checked_at", "token_expires_at", "login_ends_at", "scope_words", "reconnect",
]  # fmt: skip


class ConnectionForm(forms.ModelForm):
    class Meta:
        model = Connection
        fields = ["name", "enabled", "secret_name", "owner", "team"]


@admin.register(Connection)
class ConnectionAdmin(OwnedAdmin):
    """Created by logging in or over the API, where addresses are checked; renamed, shared and
    switched off here.
    """

    form = ConnectionForm
    list_display = ["name", "provider", "account", "state", "last_error", "checked_at", "enabled", "owner"]
    list_filter = ["provider", "health", "enabled", *OWNER_FILTERS]
    search_fields = ["name", "account", "base_url"]
    actions = ["revoke_selected"]
    readonly_fields = [
        "provider", "base_url", "config", "account", "scope_words", "health", "last_error", "checked_at",
        "token_expires_at", "login_ends_at", "reconnect",
    ]  # fmt: skip
    fieldsets = [
        (None, {"fields": ["name", "provider", "account", "base_url", "config", "secret_name", "enabled"]}),
        (later("Health"), {"fields": HEALTH_FIELDS}),
        SHARING,
    ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deleting goes through the API's code, which tells the service and removes the tools."""
        return False

    def save_model(self, request: HttpRequest, obj: Connection, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        drop_all(obj)

    @admin.display(description=later("Health"))
    def state(self, row: Connection) -> str:
        return pill(row.health, HEALTH.get(row.health, ""))

    @admin.display(description=later("Scopes"))
    def scope_words(self, row: Connection) -> str:
        return ", ".join(row.scopes) or "–"

    @admin.display(description=later("Connect again"))
    def reconnect(self, row: Connection) -> str:
        if not row.uses_oauth:
            return "–"
        return format_html('<a href="{0}">{0}</a>', reconnect_link(row))

    @admin.action(description=later("Revoke the login"), permissions=["change"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for row in queryset:
            if row.uses_oauth and self.is_editable(request, row):
                is_confirmed = oauth.revoke(row)
                self.audit(request, "revoked", row, told_service=is_confirmed)


@admin.register(RemoteTool)
class RemoteToolAdmin(ReadOnlyAdmin):
    list_display = ["remote_name", "connection", "state", "calls", "failures", "mean_ms", "seen_at"]
    list_filter = ["is_offered", "connection__provider"]
    list_select_related = ["connection", "tool"]
    search_fields = ["remote_name"]
    actions = ["approve_selected"]

    @admin.display(description=later("State"))
    def state(self, row: RemoteTool) -> str:
        if not row.is_offered:
            return pill(known("gone"), "waiting")
        if row.is_changed:
            return pill("changed", "failed")
        if row.approved_hash == row.offered_hash:
            return pill("approved")
        return pill("new", "queued")

    @admin.display(description=later("Mean ms"))
    def mean_ms(self, row: RemoteTool) -> str:
        if not row.calls:
            return "–"
        mean = row.total_ms / row.calls
        return f"{mean:.0f}"

    @admin.action(description=later("Approve as offered now"), permissions=["view"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for row in queryset.select_related("connection"):
            try:
                row.connection.require_edit(request.user)
                remote.approve_definition(row, request.user, sha256=row.offered_hash)
            except MusterError as error:
                messages.error(request, f"{row}: {translate(str(error))} {translate(error.hint)}")


@admin.register(DeliveredItem)
class DeliveredItemAdmin(ReadOnlyAdmin):
    list_display = ["external_id", "connection", "state", "attempts", "found_at", "error"]
    list_filter = ["state", "connection__provider"]
    list_select_related = ["connection"]
    search_fields = ["external_id"]


@admin.register(RemoteTask)
class RemoteTaskAdmin(ReadOnlyAdmin):
    """The tasks of remote agents, by the id of the call."""

    list_display = ["id", "task", "connection", "is_open", "answers", "waits", "created_at"]
    list_filter = ["is_open"]
    list_select_related = ["connection"]
    search_fields = ["task"]
