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
from agents.sharing import let_go
from plumbing import texts
from runs.models import Schedule, ScheduleOccurrence
from runs.rules.crontab_words import in_words
from runs.rules.timing import TimingError, read_line, split_line, upcoming, zone_named
from runs.schedules import tick as schedules

from ..base import page, signed_in, tell
from ..labels import in_language, words
from ..namesakes import address, find_by_name, mark_namesakes
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
        if row is not None:
            for name in ("agent", "text", "chain") if row.agent is None else ("chain", "input"):
                del self.fields[name]
        if row is not None and row.crontab is None:
            del self.fields["crontab"]

    def clean_agent(self) -> Agent | None:
        return self.usable(Agent, self.cleaned_data["agent"])

    def clean_chain(self) -> Chain | None:
        return self.usable(Chain, self.cleaned_data["chain"])

    def usable(self, model: Any, name: str) -> Any:
        try:
            return model.objects.for_use(self.user, name) if name else None
        except MusterError as error:
            raise forms.ValidationError(texts.translate(str(error)))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "agent" not in self.fields or "agent" in self.errors or "chain" in self.errors:
            return cleaned
        if bool(cleaned.get("agent")) == bool(cleaned.get("chain")):
            self.add_error("agent", _("Name an agent or a chain, not both."))
        elif cleaned.get("agent") and not cleaned.get("text"):
            self.add_error("text", _("Write the message to the agent."))
        elif cleaned.get("chain") and cleaned.get("text"):
            self.add_error("text", _("A chain takes an input, not a message."))
        return cleaned

    def clean_timezone(self) -> str:
        try:
            zone_named(self.cleaned_data["timezone"])
        except TimingError as error:
            raise forms.ValidationError(texts.translate(str(error)))
        return self.cleaned_data["timezone"]

    def clean_crontab(self) -> str:
        try:
            read_line(self.cleaned_data["crontab"])
            return " ".join(split_line(self.cleaned_data["crontab"]))
        except TimingError as error:
            raise forms.ValidationError(texts.translate(str(error)))

    def save(self) -> Schedule:
        about = dict(self.cleaned_data)
        if "crontab" in about:
            about["crontab"] = find_or_make_crontab(about["crontab"], about["timezone"])
        schedule = self.row or Schedule(owner=self.user)
        for name, value in about.items():
            setattr(schedule, name, value)
        if schedule.enabled:
            schedules.plan_next(schedule)
        schedule.save()
        AuditEvent.record("schedule.changed" if self.row else "schedule.created", schedule, actor=self.user)
        return schedule


def find_or_make_crontab(line: str, zone: str) -> CrontabSchedule:
    minute, hour, day, month, weekday = line.split()
    row, _created = CrontabSchedule.objects.get_or_create(
        minute=minute, hour=hour, day_of_month=day, month_of_year=month, day_of_week=weekday, timezone=zone
    )
    return row


@signed_in
def schedule_list(request: HttpRequest) -> HttpResponse:
    """The month, and every schedule. POST creates one."""
    form = ScheduleForm(request.POST, user=request.user) if request.method == "POST" else None
    if form is not None and form.is_valid():
        try:
            schedule = form.save()
        except MusterError as error:
            form.add_error("crontab", texts.translate(str(error)))
        else:
            messages.success(
                request,
                _("“%(schedule)s” is due first %(next_due_at)s UTC.")
                % {"schedule": schedule, "next_due_at": date_format(schedule.next_due_at, "DATETIME_FORMAT")},
            )
            return redirect("page:schedules")
    rows = list(visible(request).order_by("name", "pk")[:LISTED])
    mark_namesakes(Schedule, rows, request.user)
    blank = ScheduleForm(user=request.user, initial={**FIRST, "timezone": viewer_zone(), **initial_target(request)})
    answer = page(
        request, "schedules.html", _("Schedules"), schedules=rows, calendar=calendar(request, rows),
        form=form or blank, zone=viewer_zone(), agents=offer_agents(request.user), chains=offer_chains(request.user),
    )  # fmt: skip
    answer.status_code = 200 if form is None else 422
    return answer


def offer_agents(user: Any) -> list[str]:
    """Names suggested by the agent field; others can be typed."""
    return list(Agent.objects.usable_by(user).published().order_by("name").values_list("name", flat=True)[:LISTED])


def offer_chains(user: Any) -> list[str]:
    rows = Chain.objects.usable_by(user).filter(published__isnull=False, enabled=True)
    return list(rows.order_by("name").values_list("name", flat=True)[:LISTED])


def viewer_zone() -> str:
    """The viewer's time zone from the cookie: an IANA name."""
    return timezone.get_current_timezone_name()


def initial_target(request: HttpRequest) -> dict[str, str]:
    """`?agent=` or `?chain=` begins a schedule for it."""
    for kind in ("agent", "chain"):
        if name := request.GET.get(kind, "")[:64].replace("\0", ""):
            return {kind: name, "name": f"{name[:58]}-daily"}
    return {}


@signed_in
def due_times(request: HttpRequest) -> JsonResponse:
    """What a crontab line means, and its next five times: {"words", "times"}, or {"error"}."""
    line, named = (request.GET.get(name, "")[:200].replace("\0", "") for name in ("crontab", "timezone"))
    try:
        timing = read_line(line, named or viewer_zone())
        times = upcoming(timing, timezone.now(), 5)
    except (TimingError, OverflowError) as error:
        return JsonResponse({"error": texts.translate(str(error))})
    crontab = " ".join(split_line(line))
    return JsonResponse({"words": in_words(crontab, get_language()), "times": [at.isoformat() for at in times]})


def visible(request: HttpRequest) -> Any:
    return Schedule.objects.visible_to(request.user).select_related("agent", "chain", "owner", *TIMINGS)


def calendar(request: HttpRequest, rows: list[Schedule], now: datetime | None = None) -> dict[str, Any]:
    """The month as weeks of days in the viewer's zone, each with past occurrences and coming due
    times.
    """
    now = timezone.localtime(now)
    first = read_month(request.GET.get("month", ""), now)
    days = list(Calendar().itermonthdates(first.year, first.month))
    entries: dict[date, list[dict[str, Any]]] = defaultdict(list)
    start = datetime(days[0].year, days[0].month, days[0].day, tzinfo=now.tzinfo)
    end = start + timedelta(days=len(days))
    for entry in [*past(rows, start, end), *coming(rows, max(now, start), end)]:
        entries[timezone.localdate(entry["at"])].append(entry)
    cells = [cell(day, first.month, now.date(), sorted(entries[day], key=lambda one: one["at"])) for day in days]
    before, after = first - timedelta(days=1), first + timedelta(days=32)
    return {"title": date_format(first, "F Y"), "cells": cells, "before": f"{before:%Y-%m}", "after": f"{after:%Y-%m}"}


def read_month(text: str, now: datetime) -> date:
    try:
        day = datetime.strptime(text, "%Y-%m").date()
    except ValueError:
        return now.date().replace(day=1)
    return day if 2000 <= day.year <= 2200 else now.date().replace(day=1)


def cell(day: date, month: int, today: date, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "date": day, "is_other": day.month != month, "is_today": day == today, "is_past": day < today,
        "entries": entries[:4], "more": max(0, len(entries) - 4),
    }  # fmt: skip


def past(rows: list[Schedule], start: datetime, end: datetime) -> list[dict[str, Any]]:
    occurrences = ScheduleOccurrence.objects.filter(schedule__in=rows, due_at__gte=start, due_at__lt=end)
    by_key = {schedule.pk: schedule for schedule in rows}
    return [
        {"at": row.due_at, "schedule": by_key[row.schedule_id], "outcome": row.outcome, "run": row.run_id}
        for row in occurrences.order_by("-due_at")[:OCCURRENCES]
    ]


def coming(rows: list[Schedule], start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Coming due times, at most PER_SCHEDULE for each schedule."""
    entries = []
    for schedule in rows:
        if not schedule.enabled or schedule.next_due_at is None:
            continue
        try:
            times = schedules.preview(schedule, PER_SCHEDULE, now=start)
        except Invalid:
            continue
        entries += [{"at": at, "schedule": schedule, "outcome": "coming", "run": None} for at in times if at < end]
    return entries


@signed_in
def schedule_page(request: HttpRequest, name: str) -> HttpResponse:
    """One schedule. POST changes it."""
    schedule = find_by_name(request, visible(request).with_last_run(), name)
    form = None
    if request.method == "POST":
        schedule.require_edit(request.user)
        form = ScheduleForm(request.POST, user=request.user, row=schedule)
        if save_form(form):
            messages.success(request, _("Saved."))
            return redirect(address("page:schedule", schedule))
        schedule = find_by_name(request, visible(request).with_last_run(), name)  # without what was refused
    answer = render_schedule(request, schedule, form or fill_form(schedule, request.user))
    answer.status_code = 200 if form is None else 422
    return answer


def save_form(form: ScheduleForm) -> bool:
    if not form.is_valid():
        return False
    try:
        form.save()
    except MusterError as error:
        form.add_error("crontab" if "crontab" in form.fields else None, texts.translate(str(error)))
        return False
    return True


def fill_form(schedule: Schedule, user: Any) -> ScheduleForm:
    """The form with the schedule's values."""
    names = ("name", "text", "input", "timezone", "missed_policy", "overlap_policy")
    values = {name: getattr(schedule, name) for name in names}
    agent = schedule.agent.name if schedule.agent else ""
    return ScheduleForm(user=user, row=schedule, initial={**values, "agent": agent, "crontab": schedule.line})


def render_schedule(request: HttpRequest, schedule: Schedule, form: ScheduleForm) -> HttpResponse:
    try:
        upcoming = schedules.preview(schedule, 5) if schedule.enabled else []
    except Invalid as error:
        upcoming = []
        tell(request, error)
    return page(
        request, "schedule.html", schedule.name, schedule=schedule, why=schedules.why_not(schedule), upcoming=upcoming,
        occurrences=schedule.occurrences.select_related("run").order_by("-due_at")[:60],
        may_edit=schedule.may_edit(request.user), form=form, agents=offer_agents(request.user),
    )  # fmt: skip


@require_POST
@signed_in
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Delete a schedule with its due times. Its runs are kept."""
    schedule = find_by_name(request, visible(request), name)
    schedule.require_edit(request.user)
    with transaction.atomic():
        AuditEvent.record("schedule.deleted", schedule, actor=request.user)
        let_go(schedule)
        schedule.delete()
    messages.success(request, _("“%(name)s” was deleted. Its runs are kept.") % {"name": name[:64]})
    return redirect("page:schedules")


@require_POST
@signed_in
def act(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """run-now, pause or resume."""
    schedule = find_by_name(request, visible(request), name)
    schedule.require_edit(request.user)
    try:
        message = VERBS[verb](schedule, request.user)
    except KeyError:
        raise Http404("There is no such action.")
    except MusterError as error:
        tell(request, error)
    else:
        AuditEvent.record(f"schedule.{verb}", schedule, actor=request.user)
        messages.success(request, message)
    return redirect(address("page:schedule", schedule))


def run_now(schedule: Schedule, user: Any) -> str:
    occurrence = schedules.run_now(schedule, by=user)
    outcome = f"{words(occurrence.outcome)} {texts.translate(occurrence.reason)}".strip()
    return _("Started manually: %(outcome)s") % {"outcome": outcome}


def pause(schedule: Schedule, user: Any) -> str:
    schedules.set_enabled(schedule, False, reason=f"paused by {user}")
    return _("Paused. Due times during the pause are skipped.")


def resume(schedule: Schedule, user: Any) -> str:
    schedules.set_enabled(schedule, True)
    return _("Resumed. Next due %(at)s UTC.") % {"at": date_format(schedule.next_due_at, "DATETIME_FORMAT")}


VERBS = {"run-now": run_now, "pause": pause, "resume": resume}
