"""Runs, conversations, approvals, budgets and schedules in the admin. History is read-only."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import make_naive
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule

from agents.admin import OwnedAdmin, ReadOnlyAdmin
from agents.admin.authored import SHARING
from agents.admin.base import ModelAdmin, pill
from agents.admin.fields import make_fieldsets
from agents.exceptions import MusterError
from plumbing.texts import translate
from runs.models import (
    Approval,
    Budget,
    Embed,
    RouteDecision,
    Run,
    Schedule,
    ScheduleOccurrence,
    Session,
    Trigger,
    TriggerFiring,
    Worker,
)
from runs.models.figures import money
from runs.rules.timing import TimingError, read_in_zone, zone_named

from .queue import endings, workers
from .schedules import tick as schedules

# A schedule has exactly one of these.
TIMINGS = ("crontab", "interval", "clocked")
# Moments that people type as clocks in the schedule's time zone show them.
WALL_CLOCKS = ("starts_at", "ends_at")


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ["shown_id", "state", "agent", "trigger", "principal", "created_at", "shown_cost", "turns"]
    list_display_links = ["created_at"]
    list_filter = ["status", "trigger"]
    search_fields = ["=id", "agent__name"]
    list_select_related = ["agent", "principal"]
    ordering = ["-id"]
    # Counting every choice of every filter would read all runs.
    show_facets = admin.ShowFacets.NEVER
    actions = ["cancel_selected"]

    @admin.display(description=later("Run"))
    def shown_id(self, run: Run) -> str:
        return render_run_link(run)

    @admin.display(description=later("State"))
    def state(self, run: Run) -> str:
        return pill(run.status)

    @admin.display(description=later("Cost"), ordering="cost")
    def shown_cost(self, run: Run) -> str:
        return money.format_dollars(run.cost)

    @admin.action(description=later("Cancel"))
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for run in queryset:
            try:
                endings.cancel_run(run, by=request.user, reason="from the admin")
            except MusterError as error:
                messages.error(request, f"{run}: {translate(str(error))}")


@admin.register(RouteDecision)
class RouteDecisionAdmin(ReadOnlyAdmin):
    """The reason why a message without an agent's name was routed as it was."""

    list_display = ["shown_run", "agent", "method", "reason", "created_at"]
    list_display_links = ["created_at"]
    list_filter = ["method"]
    search_fields = ["agent__name", "reason"]
    list_select_related = ["agent", "run"]
    ordering = ["-pk"]
    fields = ["shown_run", "agent", "method", "reason", "considered", "created_at"]
    readonly_fields = ["shown_run", "considered"]

    @admin.display(description=later("Run"))
    def shown_run(self, decision: RouteDecision) -> str:
        return render_run_link(decision.run)

    @admin.display(description=later("Candidates"))
    def considered(self, decision: RouteDecision) -> str:
        rows = [(one.get("agent"), one.get("score"), one.get("reason")) for one in decision.candidates]
        if not rows:
            return _("nobody")
        return render_table([_("Agent"), _("Score"), _("Reason")], rows)


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Worker processes seen within the last hour. A user sees the loaded agents that are visible to
    them.
    """

    list_display = ["name", "is_alive", "pools", "release", "runs", "held", "seen_at", "started_at"]
    search_fields = ["name"]
    fields = [
        "name",
        "is_alive",
        "pools",
        "release",
        "format",
        "started_at",
        "seen_at",
        "runs",
        "loaded_agents",
        "runs_in_work",
    ]
    readonly_fields = ["is_alive", "loaded_agents", "runs_in_work"]

    def get_object(self, request: HttpRequest, *arguments: Any, **more: Any) -> Worker | None:
        worker: Worker | None = super().get_object(request, *arguments, **more)
        if worker is not None:
            # The person who sees the tables below.
            worker.reader = request.user  # type: ignore[attr-defined]
        return worker

    @admin.display(description=later("Alive"), boolean=True)
    def is_alive(self, worker: Worker) -> bool:
        return workers.is_alive(worker)

    @admin.display(description=later("Agents held"))
    def held(self, worker: Worker) -> int:
        return len(worker.loaded)

    @admin.display(description=later("Loaded"))
    def loaded_agents(self, worker: Worker) -> str:
        agents = workers.known_hashes(worker.reader)  # type: ignore[attr-defined]
        rows: list[tuple[Any, ...]] = []
        for key in worker.loaded:
            agent = agents.get(key)
            if agent is not None:
                rows.append((agent["agent"], agent["version"], key))
        others = len(worker.loaded) - len(rows)
        held = render_table([_("Agent"), _("Version"), _("Hash")], rows)
        return format_html(_("{}{} more: older ones, or other users'"), held, others)

    @admin.display(description=later("Runs in progress"))
    def runs_in_work(self, worker: Worker) -> str:
        runs = workers.list_worker_runs(worker, worker.reader)  # type: ignore[attr-defined]
        rows = [(render_run_link(run), run.agent, run.started_at) for run in runs]
        return render_table([_("Run"), _("Agent"), _("Since")], rows)


def render_run_link(run: Run) -> SafeString:
    page = reverse("page:run", args=[run.pk])
    # The last digits differ most: ids begin with the time.
    label = str(run.pk)[-12:]
    return format_html('<a href="{}">{}</a>', page, label)


def render_table(titles: list[str], rows: list[tuple[Any, ...]]) -> SafeString:
    head = format_html_join("", "<th scope='col'>{}</th>", ((title,) for title in titles))
    lines: list[tuple[SafeString]] = []
    for row in rows:
        cells = format_html_join("", "<td>{}</td>", ((cell,) for cell in row))
        lines.append((cells,))
    body = format_html_join("", "<tr>{}</tr>", lines)
    return format_html("<table><tr>{}</tr>{}</table>", head, body)


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    list_display = ["title", "agent", "owner", "status", "last_seq", "updated_at"]
    list_filter = ["status"]
    search_fields = ["title", "agent__name"]
    list_select_related = ["agent", "owner"]


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    list_display = ["tool", "state", "run", "expires_at", "decided_by", "decided_at"]
    list_filter = ["status"]
    search_fields = ["tool"]
    list_select_related = ["run", "decided_by"]

    @admin.display(description=later("State"))
    def state(self, approval: Approval) -> str:
        return pill(approval.status)


@admin.register(Budget)
class BudgetAdmin(OwnedAdmin):
    list_display = ["__str__", "max_tokens", "max_cost", "max_runs", "enabled", "owner"]
    list_filter = ["period", "enabled"]
    list_select_related = ["agent", "user", "team", "owner"]
    fieldsets = [
        (later("Whose spending"), {"fields": ["owner", "user", "agent", "team"]}),
        (later("Limits"), {"fields": ["period", "max_tokens", "max_cost", "max_runs", "enabled"]}),
    ]

    def save_model(self, request: HttpRequest, obj: Budget, form: Any, change: bool) -> None:
        """Only a superuser limits everyone: others limit themselves, their agents and the teams they administer."""
        if not request.user.is_superuser:
            if obj.team and not obj.team.may_edit(request.user):
                obj.team = None
            # A budget without a team or an agent of one's own would limit everybody: it limits its author.
            is_own_agent = obj.agent and obj.agent.may_edit(request.user)
            if not obj.team and not is_own_agent:
                obj.user_id = request.user.pk
        super().save_model(request, obj, form, change)


class EmbedBudgets(admin.TabularInline):
    model = Budget
    fields = ["period", "max_cost", "max_tokens", "max_runs", "enabled"]
    extra = 0


@admin.register(Embed)
class EmbedAdmin(OwnedAdmin):
    """They are created on the page of chats for visitors, or over REST: only there the right to the agent is asked."""

    list_display = ["__str__", "agent", "owner", "enabled"]
    list_filter = ["enabled"]
    list_select_related = ["agent", "owner"]
    readonly_fields = ["owner", "agent", "key"]
    fields = [
        "owner", "agent", "key", "enabled", "origins", "title", "greeting", "suggestions", "colour", "tools",
        "per_visitor", "per_minute", "max_characters",
    ]  # fmt: skip
    inlines = [EmbedBudgets]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """The budgets belong to the owner of the embed, also when a superuser sets them."""
        super().save_formset(request, form, formset, change)
        Budget.objects.filter(embed=form.instance, owner=None).update(owner=form.instance.owner_id)


class WallClock(forms.SplitDateTimeField):
    """A date and a time as clocks show them, without a time zone yet."""

    widget = AdminSplitDateTime

    def compress(self, data_list: Any) -> datetime | None:
        moment = super().compress(data_list)
        if not moment:
            return None
        return make_naive(moment)


class ScheduleForm(forms.ModelForm):
    """Exactly one target, one timing, and an existing time zone, whose clocks the moments are shown and
    typed on.
    """

    starts_at = WallClock(
        required=False, label=later("Starts at"), help_text=later("Start of the interval, in the schedule's time zone.")
    )
    ends_at = WallClock(required=False, label=later("Ends at"), help_text=later("In the schedule's time zone."))

    class Meta:
        model = Schedule
        fields = "__all__"  # noqa: DJ007  (the admin's fieldsets choose)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in WALL_CLOCKS:
            moment = self.initial.get(name)
            if isinstance(moment, datetime):
                zone = ZoneInfo(self.instance.timezone)
                self.initial[name] = moment.astimezone(zone).replace(tzinfo=None)

    def clean_timezone(self) -> str:
        try:
            zone_named(self.cleaned_data["timezone"])
        except TimingError as error:
            raise forms.ValidationError(translate(str(error)))
        return self.cleaned_data["timezone"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for name in WALL_CLOCKS:
            if cleaned.get(name) and "timezone" in cleaned:
                cleaned[name] = read_in_zone(cleaned[name], cleaned["timezone"])
        self.require_one(cleaned, ("agent", "chain"), _("Choose exactly one agent or chain."))
        self.require_one(cleaned, TIMINGS, _("Choose exactly one of these three."))
        return cleaned

    def require_one(self, cleaned: dict[str, Any], fields: tuple[str, ...], words: str) -> None:
        """Adds an error unless exactly one of the fields is filled in. A field that was refused has its own error."""
        names = [name for name in fields if cleaned.get(name)]
        has_errors = any(name in self.errors for name in fields)
        if len(names) != 1 and not has_errors:
            self.add_error(fields[0], words)


class TimingAdmin(ModelAdmin):
    """Timings are shared by everybody's schedules: anyone may add one, only a superuser changes or deletes one."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and request.user.is_superuser

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and request.user.is_superuser


# A periodic task would run any code of this site.
for model in [model for model in admin.site._registry if model._meta.app_label == "django_celery_beat"]:
    admin.site.unregister(model)
for model in (CrontabSchedule, IntervalSchedule, ClockedSchedule):
    admin.site.register(model, TimingAdmin)


@admin.register(Schedule)
class ScheduleAdmin(OwnedAdmin):
    form = ScheduleForm
    list_display = ["name", "agent", "chain", "next_due_at", "last_due_at", "enabled", "paused_reason", "owner"]
    list_filter = ["enabled", "missed_policy", "overlap_policy"]
    search_fields = ["name", "description"]
    list_select_related = ["agent", "chain", "owner"]
    actions = ["pause_selected", "resume_selected"]
    fieldsets = [*make_fieldsets(Schedule, instead={"interval": ["interval", "clocked"]}), SHARING]

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        try:
            schedules.plan_next(obj)
        except MusterError as error:
            # What was typed is not lost: the person corrects the timing and switches it on.
            obj.enabled = False
            obj.next_due_at = None
            messages.error(request, _("Saved, but switched off: %(reason)s") % {"reason": translate(str(error))})
        super().save_model(request, obj, form, change)

    @admin.action(description=later("Pause"), permissions=["change"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for schedule in queryset:
            if self.is_editable(request, schedule):
                schedules.set_enabled(schedule, False, reason=f"paused by {request.user}")

    @admin.action(description=later("Resume"), permissions=["change"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for schedule in queryset:
            if self.is_editable(request, schedule):
                try:
                    schedules.set_enabled(schedule, True)
                except MusterError as error:
                    messages.error(request, f"{schedule}: {translate(str(error))}")


@admin.register(ScheduleOccurrence)
class OccurrenceAdmin(ReadOnlyAdmin):
    list_display = ["schedule", "due_at", "state", "reason", "run"]
    list_filter = ["outcome"]
    list_select_related = ["schedule", "run"]
    ordering = ["-due_at"]

    @admin.display(description=later("Outcome"))
    def state(self, occurrence: ScheduleOccurrence) -> str:
        return pill(occurrence.outcome)


@admin.register(Trigger)
class TriggerAdmin(OwnedAdmin):
    list_display = ["name", "kind", "agent", "chain", "enabled", "last_fired_at", "owner"]
    list_filter = ["kind", "enabled"]
    search_fields = ["name"]
    list_select_related = ["agent", "chain", "owner"]
    exclude = ["secret"]


@admin.register(TriggerFiring)
class FiringAdmin(ReadOnlyAdmin):
    list_display = ["trigger", "outcome", "reason", "run", "created_at"]
    list_filter = ["outcome"]
    list_select_related = ["trigger", "run"]
