"""Tells remote agents (A2A) to stop, whose task outlives the run that asked for it."""

from datetime import timedelta

from django.db.models import Exists, OuterRef

from agents.models import SiteHold
from connectors.models import RemoteTask
from connectors.toolsets import a2a
from plumbing import clock
from runs.models import Run, ToolCallRecord

AT_ONCE = 20
TRIED_FOR = timedelta(hours=1)  # an agent that cannot be reached


def cancel_left() -> int:
    """The open tasks of runs that have ended, such as one that was cancelled while it waited for a task."""
    calls = ToolCallRecord.objects.filter(pk=OuterRef("pk"), run__status__in=Run.DONE)
    rows = RemoteTask.objects.filter(SiteHold.absent(), Exists(calls), is_open=True).select_related("connection")
    tasks = list(rows.order_by("id")[:AT_ONCE])
    for row in tasks:
        run = ToolCallRecord.objects.select_related("run").get(pk=row.pk).run
        a2a.cancel_left(row, run.principal_id)
        if row.is_open and run.finished_at and run.finished_at < clock.near() - TRIED_FOR:
            row.close()
    return len(tasks)
