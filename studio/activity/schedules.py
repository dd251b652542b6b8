"""The pages of schedules: a calendar of past and coming due times, one schedule with its occurrences,
and when a crontab line would be due.
"""

from calendar import Calendar
from collections import defaultdict
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from django.views.decorators.http import require_POST
from django_celery_beat.models import CrontabSchedule

from agents.exceptions import Invalid, MusterError
from agents.models import Agent, AuditEvent, Chain
from agents.sharing import remove_unshared_uses
from plumbing import texts
from runs.models import Schedule, ScheduleOccurrence
from runs.rules.crontab_words import describe_crontab
from runs.rules.timing import TimingError, read_line, split_line, upcoming, zone_named
from runs.schedules import tick as schedules

from ..base import add_refusal_message, render_shell_page, require_login
from ..labels import in_language, render_label
from ..owner_urls import address, find_by_name, mark_namesakes
from ..start import NamedForm

LISTED, PER_SCHEDULE, OCCURRENCES = 200, 62, 600
TIMINGS = ("crontab", "interval", "clocked")
FIRST = {"crontab": "0 8 * * 1-5"}


class JsonField(forms.JSONField):
    """Nothing is shown as an empty field, not as `null`."""

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)


class ScheduleForm(NamedForm):
    """A crontab schedule for an agent or a chain; the admin and the API offer the other kinds."""

    model = Schedule
    agent = forms.CharField(
        max_length=64, required=False, widget=forms.TextInput(attrs={"list": "agents", "autocomplete": "off"})
    )
    text = forms.CharField(
        label=later("Message"), required=False, max_length=100_000, widget=forms.Textarea(attrs={"rows": 2})
    )
    chain = forms.CharField(
        max_length=64, required=False, label=later("or a chain"),
        widget=forms.TextInput(attrs={"list": "chains", "autocomplete": "off"}),
    )  # fmt: skip
    input = JsonField(
        required=False, label=later("Input of the chain"), help_text=later("JSON, such as {\"n\": 3}."),
        widget=forms.Textarea(attrs={"rows": 2, "class": "code", "spellcheck": "false"}),
    )  # fmt: skip
    crontab = forms.CharField(
        label=later("When"), max_length=200, widget=forms.TextInput(attrs={"data-crontab": "", "autocomplete": "off"}),
        help_text=later("minute hour day month weekday, such as 0 8 * * 1-5, or words: every weekday at 9."),
    )  # fmt: skip
    timezone = forms.CharField(max_length=64, label=later("Zone"), help_text=later("IANA name, such as Europe/Berlin."))
    missed_policy = forms.ChoiceField(
        choices=partial(in_language, Schedule.Missed.choices),
        initial=Schedule.Missed.ONCE,
        label=later("When starts were missed"),
    )
    overlap_policy = forms.ChoiceField(
        choices=partial(in_language, Schedule.Overlap.choices),
        initial=Schedule.Overlap.SKIP,
        label=later("When an earlier run is still at work"),
    )

    def __init__(self, *args: Any, row: Schedule | None = None, **kwargs: Any) -> None:
        """Of a schedule for a chain, or with another timing, the form leaves these as they are."""
        super().__init__(*args, row=row, **kwargs)
        if row is None:
            return
        is_of_chain = row.agent is None
        unused = ["agent", "text", "chain"] if is_of_chain else ["chain", "input"]
        if row.crontab is None:
            unused.append("crontab")
        for name in unused:
            del self.fields[name]

    def clean_agent(self) -> Agent | None:
        return self.usable(Agent, self.cleaned_data["agent"])

    def clean_chain(self) -> Chain | None:
        return self.usable(Chain, self.cleaned_data["chain"])

    def usable(self, model: Any, name: str) -> Any:
        """The row of this name; None for an empty field."""
        if not name:
            return None
        try:
            return model.objects.for_use(self.user, name)
        except MusterError as error:
            raise forms.ValidationError(texts.translate(str(error)))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # What has an error already needs no second one.
        if "agent" not in self.fields or "agent" in self.errors or "chain" in self.errors:
            return cleaned
        agent = cleaned.get("agent")
        chain = cleaned.get("chain")
        text = cleaned.get("text")
        if bool(agent) == bool(chain):
            self.add_error("agent", _("Name an agent or a chain, not both."))
        elif agent and not text:
            self.add_error("text", _("Write the message to the agent."))
        elif chain and text:
            self.add_error("text", _("A chain takes an input, not a message."))
        return cleaned

    def clean_timezone(self) -> str:
        name = self.cleaned_data["timezone"]
        try:
            zone_named(name)
        except TimingError as error:
            raise forms.ValidationError(texts.translate(str(error)))
        return name

    def clean_crontab(self) -> str:
        """The five fields, also of what was written in words."""
        text = self.cleaned_data["crontab"]
        try:
            read_line(text)
            return " ".join(split_line(text))
        except TimingError as error:
            raise forms.ValidationError(texts.translate(str(error)))

    def save(self) -> Schedule:
        fields = dict(self.cleaned_data)
        if "crontab" in fields:
            fields["crontab"] = find_or_make_crontab(fields["crontab"], fields["timezone"])
        schedule = self.row or Schedule(owner=self.user)
        for name, value in fields.items():
            setattr(schedule, name, value)
        if schedule.enabled:
            schedules.plan_next(schedule)
        schedule.save()
        action = "schedule.changed" if self.row else "schedule.created"
        AuditEvent.record(action, schedule, actor=self.user)
        return schedule


def find_or_make_crontab(line: str, zone: str) -> CrontabSchedule:
    minute, hour, day, month, weekday = line.split()
    row, _created = CrontabSchedule.objects.get_or_create(
        minute=minute, hour=hour, day_of_month=day, month_of_year=month, day_of_week=weekday, timezone=zone
    )
    return row


@require_login
def schedule_list(request: HttpRequest) -> HttpResponse:
    """The month, and every schedule. POST creates one."""
    form = None
    if request.method == "POST":
        form = ScheduleForm(request.POST, user=request.user)
        schedule = save_new(form)
        if schedule is not None:
            due_at = date_format(schedule.next_due_at, "DATETIME_FORMAT")
            message = _("“%(schedule)s” is due first %(next_due_at)s UTC.")
            messages.success(request, message % {"schedule": schedule, "next_due_at": due_at})
            return redirect("page:schedules")
    rows = list(build_visible_schedules_query(request).order_by("name", "pk")[:LISTED])
    mark_namesakes(Schedule, rows, request.user)
    initial = {**FIRST, "timezone": viewer_zone(), **initial_target(request)}
    answer = render_shell_page(
        request,
        "schedules.html",
        _("Schedules"),
        schedules=rows,
        calendar=calendar(request, rows),
        form=form or ScheduleForm(user=request.user, initial=initial),
        zone=viewer_zone(),
        agents=offer_agents(request.user),
        chains=offer_chains(request.user),
    )
    answer.status_code = 200 if form is None else 422
    return answer


def save_new(form: ScheduleForm) -> Schedule | None:
    """None if the form has errors now."""
    if not form.is_valid():
        return None
    try:
        return form.save()
    except MusterError as error:
        form.add_error("crontab", texts.translate(str(error)))
        return None


def offer_agents(user: Any) -> list[str]:
    """Names suggested by the agent field; others can be typed."""
    rows = Agent.objects.usable_by(user).published().order_by("name")
    return list(rows.values_list("name", flat=True)[:LISTED])


def offer_chains(user: Any) -> list[str]:
    rows = Chain.objects.usable_by(user).filter(published__isnull=False, enabled=True).order_by("name")
    return list(rows.values_list("name", flat=True)[:LISTED])


def viewer_zone() -> str:
    """The viewer's time zone from the cookie: an IANA name."""
    return timezone.get_current_timezone_name()


def initial_target(request: HttpRequest) -> dict[str, str]:
    """`?agent=` or `?chain=` begins a schedule for it."""
    for kind in ("agent", "chain"):
        target = request.GET.get(kind, "")[:64].replace("\0", "")
        if target:
            # Shortened, so that the name has at most 64 characters.
            return {kind: target, "name": f"{target[:58]}-daily"}
    return {}


@require_login
def due_times(request: HttpRequest) -> JsonResponse:
    """What a crontab line means, and its next five times: {"words", "times"}, or {"error"}."""
    line = request.GET.get("crontab", "")[:200].replace("\0", "")
    zone = request.GET.get("timezone", "")[:200].replace("\0", "")
    try:
        timing = read_line(line, zone or viewer_zone())
        times = upcoming(timing, timezone.now(), 5)
    except (TimingError, OverflowError) as error:
        return JsonResponse({"error": texts.translate(str(error))})
    # Fields and not words: they can be described in the person's language.
    crontab = " ".join(split_line(line))
    words = describe_crontab(crontab, get_language())
    return JsonResponse({"words": words, "times": [at.isoformat() for at in times]})


def build_visible_schedules_query(request: HttpRequest) -> Any:
    return Schedule.objects.visible_to(request.user).select_related("agent", "chain", "owner", *TIMINGS)


def calendar(request: HttpRequest, rows: list[Schedule], now: datetime | None = None) -> dict[str, Any]:
    """The month as weeks of days in the viewer's zone, each with past occurrences and coming due
    times.
    """
    now = timezone.localtime(now)
    first = read_month(request.GET.get("month", ""), now)
    days = list(Calendar().itermonthdates(first.year, first.month))
    start = datetime(days[0].year, days[0].month, days[0].day, tzinfo=now.tzinfo)
    end = start + timedelta(days=len(days))
    entries: dict[date, list[dict[str, Any]]] = defaultdict(list)
    for entry in [*past(rows, start, end), *coming(rows, max(now, start), end)]:
        local_day = timezone.localdate(entry["at"])
        entries[local_day].append(entry)
    cells = []
    for day in days:
        entries_of_day = sorted(entries[day], key=lambda entry: entry["at"])
        cells.append(cell(day, first.month, now.date(), entries_of_day))
    before = first - timedelta(days=1)
    # 32 days after a first of the month lie in the next month.
    after = first + timedelta(days=32)
    return {"title": date_format(first, "F Y"), "cells": cells, "before": f"{before:%Y-%m}", "after": f"{after:%Y-%m}"}


def read_month(text: str, now: datetime) -> date:
    """The first day of the month; of the present one for a text that is none, and for years far away."""
    this_month = now.date().replace(day=1)
    try:
        day = datetime.strptime(text, "%Y-%m").date()
    except ValueError:
        return this_month
    if not 2000 <= day.year <= 2200:
        return this_month
    return day


def cell(day: date, month: int, today: date, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "date": day, "is_other": day.month != month, "is_today": day == today, "is_past": day < today,
        "entries": entries[:4], "more": max(0, len(entries) - 4),
    }  # fmt: skip


def past(rows: list[Schedule], start: datetime, end: datetime) -> list[dict[str, Any]]:
    by_id = {schedule.pk: schedule for schedule in rows}
    occurrences = ScheduleOccurrence.objects.filter(schedule__in=rows, due_at__gte=start, due_at__lt=end)
    entries = []
    for row in occurrences.order_by("-due_at")[:OCCURRENCES]:
        schedule = by_id[row.schedule_id]
        entries.append({"at": row.due_at, "schedule": schedule, "outcome": row.outcome, "run": row.run_id})
    return entries


def coming(rows: list[Schedule], start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Coming due times, at most PER_SCHEDULE for each schedule."""
    entries = []
    for schedule in rows:
        if not schedule.enabled or schedule.next_due_at is None:
            continue
        try:
            times = schedules.preview_due_times(schedule, PER_SCHEDULE, now=start)
        # A schedule that cannot be read has no times; its own page says why.
        except Invalid:
            continue
        for at in times:
            if at < end:
                entries.append({"at": at, "schedule": schedule, "outcome": "coming", "run": None})
    return entries


@require_login
def schedule_page(request: HttpRequest, name: str) -> HttpResponse:
    """One schedule. POST changes it."""
    schedule = find_by_name(request, build_visible_schedules_query(request).with_last_run(), name)
    form = None
    if request.method == "POST":
        schedule.require_edit(request.user)
        form = ScheduleForm(request.POST, user=request.user, row=schedule)
        if save_form(form):
            messages.success(request, _("Saved."))
            return redirect(address("page:schedule", schedule))
        # Without what was refused.
        schedule = find_by_name(request, build_visible_schedules_query(request).with_last_run(), name)
    answer = render_schedule(request, schedule, form or fill_form(schedule, request.user))
    answer.status_code = 200 if form is None else 422
    return answer


def save_form(form: ScheduleForm) -> bool:
    if not form.is_valid():
        return False
    try:
        form.save()
    except MusterError as error:
        field = "crontab" if "crontab" in form.fields else None
        form.add_error(field, texts.translate(str(error)))
        return False
    return True


def fill_form(schedule: Schedule, user: Any) -> ScheduleForm:
    """The form with the schedule's values."""
    names = ("name", "text", "input", "timezone", "missed_policy", "overlap_policy")
    values = {name: getattr(schedule, name) for name in names}
    values["agent"] = schedule.agent.name if schedule.agent else ""
    values["crontab"] = schedule.line
    return ScheduleForm(user=user, row=schedule, initial=values)


def render_schedule(request: HttpRequest, schedule: Schedule, form: ScheduleForm) -> HttpResponse:
    upcoming: list[datetime] = []
    if schedule.enabled:
        try:
            upcoming = schedules.preview_due_times(schedule, 5)
        except Invalid as error:
            add_refusal_message(request, error)
    occurrences = schedule.occurrences.select_related("run").order_by("-due_at")
    return render_shell_page(
        request,
        "schedule.html",
        schedule.name,
        schedule=schedule,
        why=schedules.why_not(schedule),
        upcoming=upcoming,
        occurrences=occurrences[:60],
        may_edit=schedule.may_edit(request.user),
        form=form,
        agents=offer_agents(request.user),
    )


@require_POST
@require_login
def delete_shown_schedule(request: HttpRequest, name: str) -> HttpResponse:
    """Delete a schedule with its due times. Its runs are kept."""
    schedule = find_by_name(request, build_visible_schedules_query(request), name)
    schedule.require_edit(request.user)
    with transaction.atomic():
        AuditEvent.record("schedule.deleted", schedule, actor=request.user)
        remove_unshared_uses(schedule)
        schedule.delete()
    messages.success(request, _("“%(name)s” was deleted. Its runs are kept.") % {"name": name[:64]})
    return redirect("page:schedules")


@require_POST
@require_login
def handle_schedule_action(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """run-now, pause or resume."""
    schedule = find_by_name(request, build_visible_schedules_query(request), name)
    schedule.require_edit(request.user)
    try:
        message = VERBS[verb](schedule, request.user)
    except KeyError:
        raise Http404("There is no such action.")
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        AuditEvent.record(f"schedule.{verb}", schedule, actor=request.user)
        messages.success(request, message)
    return redirect(address("page:schedule", schedule))


def run_now(schedule: Schedule, user: Any) -> str:
    occurrence = schedules.run_now(schedule, by=user)
    outcome = f"{render_label(occurrence.outcome)} {texts.translate(occurrence.reason)}".strip()
    return _("Started manually: %(outcome)s") % {"outcome": outcome}


def pause_shown_schedule(schedule: Schedule, user: Any) -> str:
    schedules.set_enabled(schedule, False, reason=f"paused by {user}")
    return _("Paused. Due times during the pause are skipped.")


def resume_shown_schedule(schedule: Schedule, user: Any) -> str:
    schedules.set_enabled(schedule, True)
    return _("Resumed. Next due %(at)s UTC.") % {"at": date_format(schedule.next_due_at, "DATETIME_FORMAT")}


VERBS = {"run-now": run_now, "pause": pause_shown_schedule, "resume": resume_shown_schedule}
