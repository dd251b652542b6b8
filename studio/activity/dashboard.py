"""The dashboard: results, failures, waiting runs, and what to do next."""

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from agents.models import Agent
from devices.models import Device
from functions.models import Execution
from plumbing import clock
from runs.models import Run, Schedule, ScheduleOccurrence
from runs.models.figures import anomalies
from runs.models.figures import dashboard as figures
from runs.models.figures.dashboard import Day

from ..base import render_shell_page, require_login, seen_runs, sees_everyone
from ..owner_urls import mark_namesakes

WIDTH, HEIGHT = 720, 150
GROUPS = {
    "succeeded": ("succeeded",),
    "failed": ("failed", "expired", "partial"),
    "waiting": ("waiting",),
    "other": ("queued", "running", "cancelled"),
}
# The newest executions in which violations are counted.
EXECUTIONS = 2000


@require_login
def dashboard(request: HttpRequest) -> HttpResponse:
    runs = seen_runs(request)
    everyone = sees_everyone(request)
    history = figures.history(runs)
    unusual = [*figures.anomalies(history.days), *(anomaly.message for anomaly in anomalies.today(runs))]
    has_agents = Agent.objects.visible_to(request.user).published().exists()
    return render_shell_page(
        request,
        "dashboard.html",
        _("Dashboard"),
        lead=_("Runs of all users.") if everyone else "",
        everyone=everyone,
        history=history,
        bars=bars(history.days),
        latency=figures.latency(runs),
        live=figures.live_counts(runs),
        anomalies=unusual,
        failing=figures.failing_tools(runs, everyone, request.user),
        violations=violations(request, everyone),
        recent=recent_runs(runs),
        schedules=schedule_figures(request),
        devices=device_figures(request),
        has_agents=has_agents,
    )


def recent_runs(runs: QuerySet[Run]) -> list[Run]:
    names = ["agent__name", "agent__display_name", "chain_version__chain__name", "chain_version__chain__display_name"]
    fields = [*names, "status", "waiting_for", "created_at", "trigger", "error"]
    rows = runs.select_related("agent", "chain_version__chain").only("id", *fields)
    return list(rows.order_by("-pk")[:8])


def schedule_figures(request: HttpRequest) -> dict[str, Any] | None:
    """The next due schedules, and the number of due times missed or refused last week; None without
    schedules.
    """
    mine = Schedule.objects.visible_to(request.user)
    due = mine.filter(enabled=True, next_due_at__isnull=False).select_related("owner")
    coming = list(due.order_by("next_due_at")[:6])
    mark_namesakes(Schedule, coming, request.user)
    lost = (ScheduleOccurrence.Outcome.MISSED, ScheduleOccurrence.Outcome.REFUSED)
    # Ids begin with their time, so the primary key finds those of the week without another index.
    first_id = figures.build_first_id(clock.near() - timedelta(days=7))
    missed_count = ScheduleOccurrence.objects.filter(pk__gte=first_id, schedule__in=mine, outcome__in=lost).count()
    if not coming and not missed_count:
        return None
    return {"next": coming, "missed": missed_count}


def device_figures(request: HttpRequest) -> dict[str, int] | None:
    """How many of this user's devices are online; None without devices."""
    rows = Device.objects.visible_to(request.user).live()
    devices = list(rows.only("id", "socket", "last_seen", "revoked_at"))
    if not devices:
        return None
    online_count = sum(device.is_online() for device in devices)
    return {"all": len(devices), "online": online_count}


def violations(request: HttpRequest, everyone: bool) -> int:
    """Attempts to leave the sandbox among the newest executions."""
    executions = Execution.objects.all() if everyone else Execution.objects.visible_to(request.user)
    newest = executions.order_by("-pk").values_list("status", flat=True)[:EXECUTIONS]
    return sum(status == "violation" for status in newest)


def bars(days: list[Day]) -> dict[str, Any]:
    """The chart as rectangles: one column per day, one rectangle per group of states."""
    # At least 1: without runs the chart is empty, not undefined.
    top = max([1, *(day.total for day in days)])
    step = WIDTH / len(days)
    columns = []
    for place, day in enumerate(days):
        x = place * step
        counts = {}
        for name, statuses in GROUPS.items():
            counts[name] = sum(day.counts[status] for status in statuses)
        parts = stack(counts, top, x, step)
        columns.append({"day": day, "x": round(x, 1), "parts": parts, "counts": counts})
    return {"columns": columns, "width": WIDTH, "height": HEIGHT + 1, "step": step, "base": HEIGHT, "top": top}


def stack(counts: dict[str, int], top: int, x: float, step: float) -> list[dict[str, Any]]:
    """The rectangles of one day, from the bottom up."""
    parts = []
    y = float(HEIGHT)
    for name, count in counts.items():
        if not count:
            continue
        # The tallest column leaves 8 units for its label.
        height = count / top * (HEIGHT - 8)
        y -= height
        parts.append(
            {
                "name": name,
                "x": round(x + step * 0.18, 1),
                "y": round(y, 1),
                "width": round(step * 0.64, 1),
                "height": round(max(height, 1), 1),
            }
        )
    return parts
