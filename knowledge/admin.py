"""Memories in the admin: read there, changed on their page."""

from django.contrib import admin

from agents.admin import ReadOnlyAdmin
from knowledge.models import Memory


@admin.register(Memory)
class MemoryAdmin(ReadOnlyAdmin):
    owner_field = "owner"
    list_display = ["__str__", "text", "scope", "owner", "status", "untrusted", "updated_at"]
    list_filter = ["scope", "kind", "status", "untrusted"]
    search_fields = ["text", "subject"]
