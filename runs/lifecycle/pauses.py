"""Waiting for a person counts against no deadline: meanwhile those of the run and of its ancestors move on.

They move by the longest that the person may take. What was not needed of it is taken back when the run goes on, so
that nothing that looks at a deadline needs to know who waits for whom.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Max
from django.utils import timezone

from runs.models import Approval, Run


def pause(run: Run, now: datetime | None = None) -> None:
    """Where a person is asked something, move the deadlines; nothing where nobody is."""
    asked = Approval.objects.open().filter(run=run).aggregate(until=Max("expires_at"))["until"]
    longest = (asked - (now or timezone.now())) if asked else timedelta()
    if longest <= timedelta():
        return
    move([run.pk, *ancestors(run)], longest)
    Run.objects.filter(pk=run.pk).update(paused_until=asked)
    run.paused_until = asked
    run.deadline = run.deadline + longest if run.deadline else None


def resume(run: Run, now: datetime | None = None) -> None:
    """The person has answered, or did not in time: take back what is left."""
    if run.paused_until is None:
        return
    left = max(run.paused_until - (now or timezone.now()), timedelta())
    move([run.pk, *ancestors(run)], -left)
    Run.objects.filter(pk=run.pk).update(paused_until=None)
    run.paused_until = None
    run.deadline = run.deadline - left if run.deadline else None


def move(run_ids: Any, by: timedelta) -> None:
    for pk in run_ids:
        Run.objects.live().filter(pk=pk, deadline__isnull=False).update(deadline=F("deadline") + by)


def ancestors(run: Run) -> Iterator[Any]:
    parent = run.parent_id
    while parent is not None:
        yield parent
        parent = Run.objects.filter(pk=parent).values_list("parent_id", flat=True).first()
