"""Runs, conversations, approvals, budgets and schedules in the admin. What happened is read, never edited."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import action, display

from agents.admin import OwnedAdmin
from agents.exceptions import MusterError
from runs import endings, schedules
from runs.models import Approval, Budget, Run, Schedule, ScheduleOccurrence, Session, Trigger, TriggerFiring

STATES = {
    "succeeded": "success",
    "approved": "success",
    "started": "info",
    "queued": "info",
    "running": "info",
    "waiting": "warning",
    "partial": "warning",
    "open": "warning",
    "failed": "danger",
    "expired": "danger",
    "missed": "danger",
    "refused": "danger",
    "denied": "danger",
}


class FactAdmin(OwnedAdmin):
    """Facts: listed, searched and read."""

    owner_field = ""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Run)
class RunAdmin(FactAdmin):
    list_display = ["shown_id", "state", "agent", "trigger", "principal", "created_at", "cost", "turns"]
    list_filter = ["status", "trigger"]
    search_fields = ["=id", "agent__name"]
    list_select_related = ["agent", "principal"]
    ordering = ["-id"]
    show_facets = admin.ShowFacets.NEVER
    actions = ["cancel_selected"]

    @display(description="Run")
    def shown_id(self, run: Run) -> str:
        return format_html('<a href="{}">{}</a>', reverse("page:run", args=[run.pk]), str(run.pk)[-12:])

    @display(description="State", label=STATES)
    def state(self, run: Run) -> str:
        return run.status

    @action(description="Cancel")
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for run in queryset:
            try:
                endings.cancel(run, by=request.user, reason="from the admin")
            except MusterError as error:
                messages.error(request, f"{run}: {error}")


@admin.register(Session)
class SessionAdmin(FactAdmin):
    list_display = ["title", "agent", "owner", "status", "last_seq", "updated_at"]
    list_filter = ["status"]
    search_fields = ["title", "agent__name"]
    list_select_related = ["agent", "owner"]


@admin.register(Approval)
class ApprovalAdmin(FactAdmin):
    list_display = ["tool", "state", "run", "expires_at", "decided_by", "decided_at"]
    list_filter = ["status"]
    search_fields = ["tool"]
    list_select_related = ["run", "decided_by"]

    @display(description="State", label=STATES)
    def state(self, approval: Approval) -> str:
        return approval.status


@admin.register(Budget)
class BudgetAdmin(OwnedAdmin):
    list_display = ["__str__", "max_tokens", "max_cost", "max_runs", "enabled", "owner"]
    list_filter = ["period", "enabled"]
    list_select_related = ["agent", "user", "team", "owner"]
    fieldsets = [
        ("Whose spending", {"fields": ["owner", "user", "agent", "team"]}),
        ("Limits", {"fields": ["period", "max_tokens", "max_cost", "max_runs", "enabled"]}),
    ]


@admin.register(Schedule)
class ScheduleAdmin(OwnedAdmin):
    list_display = ["name", "agent", "chain", "next_due_at", "last_due_at", "enabled", "paused_reason", "owner"]
    list_filter = ["enabled", "missed_policy", "overlap_policy"]
    search_fields = ["name", "description"]
    list_select_related = ["agent", "chain", "owner"]
    actions = ["pause_selected", "resume_selected"]
    fieldsets = [
        (None, {"fields": ["name", "description", "agent", "chain", "text", "input", "enabled"]}),
        ("When", {"fields": ["crontab", "interval", "clocked", "timezone", "starts_at", "ends_at", "jitter_s"]}),
        (
            "When something is in the way",
            {
                "fields": [
                    "missed_policy",
                    "missed_window_s",
                    "overlap_policy",
                    "wait_for_device",
                    "device",
                    "pause_after_failures",
                    "notify_email",
                ]
            },
        ),
        ("Sharing", {"fields": ["owner", "team"], "classes": ["collapse"]}),
    ]

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        try:
            schedules.plan_next(obj)
        except MusterError as error:
            obj.enabled, obj.next_due_at = False, None
            messages.error(request, f"Saved, but switched off: {error}")
        super().save_model(request, obj, form, change)

    @action(description="Pause", permissions=["change"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for schedule in queryset:
            if self.is_editable(request, schedule):
                schedules.set_enabled(schedule, False, reason=f"paused by {request.user}")

    @action(description="Resume", permissions=["change"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for schedule in queryset:
            if self.is_editable(request, schedule):
                try:
                    schedules.set_enabled(schedule, True)
                except MusterError as error:
                    messages.error(request, f"{schedule}: {error}")


@admin.register(ScheduleOccurrence)
class OccurrenceAdmin(FactAdmin):
    list_display = ["schedule", "due_at", "state", "reason", "run"]
    list_filter = ["outcome"]
    list_select_related = ["schedule", "run"]
    ordering = ["-due_at"]

    @display(description="Outcome", label=STATES)
    def state(self, occurrence: ScheduleOccurrence) -> str:
        return occurrence.outcome


@admin.register(Trigger)
class TriggerAdmin(OwnedAdmin):
    list_display = ["name", "kind", "agent", "chain", "enabled", "last_fired_at", "owner"]
    list_filter = ["kind", "enabled"]
    search_fields = ["name"]
    list_select_related = ["agent", "chain", "owner"]
    exclude = ["secret"]


@admin.register(TriggerFiring)
class FiringAdmin(FactAdmin):
    list_display = ["trigger", "outcome", "reason", "run", "created_at"]
    list_filter = ["outcome"]
    list_select_related = ["trigger", "run"]
