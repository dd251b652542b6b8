"""Connections in the admin: health, account and sharing; tokens never appear."""

from django.contrib import admin
from django.http import HttpRequest
from unfold.decorators import display

from agents.admin import OwnedAdmin
from connectors.models import Connection

HEALTH = {"ok": "success", "expiring": "warning", "broken": "danger"}


@admin.register(Connection)
class ConnectionAdmin(OwnedAdmin):
    list_display = ["name", "provider", "account", "state", "last_error", "checked_at", "enabled", "owner"]
    list_filter = ["provider", "health", "enabled"]
    search_fields = ["name", "account", "base_url"]
    readonly_fields = [
        "provider",
        "base_url",
        "config",
        "secret_name",
        "account",
        "scopes",
        "health",
        "last_error",
        "checked_at",
        "token_expires_at",
        "login_ends_at",
    ]
    fieldsets = [
        (None, {"fields": ["name", "provider", "account", "base_url", "config", "secret_name", "scopes", "enabled"]}),
        ("Health", {"fields": ["health", "last_error", "checked_at", "token_expires_at", "login_ends_at"]}),
        ("Sharing", {"fields": ["owner", "team"], "classes": ["collapse"]}),
    ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Made by logging in, on the page of connections."""
        return False

    @display(description="Health", label=HEALTH)
    def state(self, connection: Connection) -> str:
        return connection.health
