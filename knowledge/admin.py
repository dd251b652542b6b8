"""Memories, collections and skills in the admin: read there, changed on their pages."""

from django.contrib import admin

from agents.admin import ReadOnlyAdmin
from knowledge.models import Collection, Document, Evaluation, EvaluationQuestion, Memory, Skill


@admin.register(Memory)
class MemoryAdmin(ReadOnlyAdmin):
    owner_field = "owner"
    list_display = ["__str__", "text", "scope", "owner", "status", "untrusted", "updated_at"]
    list_filter = ["scope", "kind", "status", "untrusted"]
    search_fields = ["text", "subject"]


@admin.register(Collection)
class CollectionAdmin(ReadOnlyAdmin):
    owner_field = "owner"
    list_display = ["name", "description", "owner", "team", "version", "updated_at"]
    search_fields = ["name", "description"]


@admin.register(Document)
class DocumentAdmin(ReadOnlyAdmin):
    # Its owner is that of the collection.
    owner_field = ""
    list_select_related = ["collection"]
    list_display = ["name", "collection", "source", "status", "chunk_count", "untrusted", "created_at"]
    list_filter = ["status", "source", "untrusted"]
    search_fields = ["name", "url"]


@admin.register(EvaluationQuestion)
class EvaluationQuestionAdmin(ReadOnlyAdmin):
    # Its owner is that of the collection.
    owner_field = ""
    list_select_related = ["collection"]
    list_display = ["question", "collection", "document", "place", "created_at"]
    search_fields = ["question", "document"]


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    # Its owner is that of the collection.
    owner_field = ""
    list_select_related = ["collection"]
    list_display = ["collection", "version", "recall_at_5", "mrr", "warning", "created_at"]


@admin.register(Skill)
class SkillAdmin(ReadOnlyAdmin):
    owner_field = "owner"
    list_display = ["name", "description", "owner", "team", "published", "untrusted", "updated_at"]
    list_filter = ["untrusted"]
    list_select_related = ["owner", "team", "published__skill"]
    search_fields = ["name", "description"]
