"""Waiting for a person does not count against any deadline: those of the run and its ancestors are
extended meanwhile.

They are extended by the longest time that the person has. The unused part is taken back when the
run continues, so code that checks a deadline need not know which run waits for which.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Max

from plumbing import clock
from runs.models import Approval, InputRequest, Run


def pause(run: Run, now: datetime | None = None) -> None:
    """Extend the deadlines if an approval or an input request is open."""
    asked = max(filter(None, (open_until(rows, run) for rows in (Approval, InputRequest))), default=None)
    longest = (asked - (now or clock.near())) if asked else timedelta()
    if longest <= timedelta():
        return
    move([run.pk, *ancestors(run)], longest)
    Run.objects.filter(pk=run.pk).update(paused_until=asked)
    run.paused_until = asked
    run.deadline = run.deadline + longest if run.deadline else None


def open_until(rows: type[Approval] | type[InputRequest], run: Run) -> datetime | None:
    return rows.objects.open().filter(run=run).aggregate(until=Max("expires_at"))["until"]


def resume(run: Run, now: datetime | None = None) -> None:
    """The person has answered, or the time is over: take back the unused time."""
    if run.paused_until is None:
        return
    left = max(run.paused_until - (now or clock.near()), timedelta())
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
