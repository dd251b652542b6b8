"""Hooks. Authors and administrators of teams use the API; the admin is for superusers."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from agents.models import Hook
from agents.models.options import find_options

from .access import SuperusersOnly
from .owned import OwnedAdmin


@admin.register(Hook)
class HookAdmin(SuperusersOnly, OwnedAdmin):
    owner_field = ""
    list_display = ["place", "tool", "scope", "agent", "team", "enabled"]
    list_filter = ["place", "enabled"]
    list_select_related = ["tool", "agent", "team"]
    fields = ["place", "tool", "agent", "team", *find_options(Hook)]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.created_by = request.user
        super().save_model(request, obj, form, change)
