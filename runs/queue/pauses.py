"""Waiting for a person, for a device that may be away (`offline: wait`), or for a worker does not count
against any deadline: those of the run and its ancestors are extended.

How long a run stands in the queue is known when a worker takes it. For a person or a device they are
extended by the longest time that these have. The unused part is taken back when the run continues, so
code that checks a deadline need not know which run waits for which.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Max

from devices import calls as device_calls
from plumbing import clock
from runs.models import Approval, InputRequest, Run

from .locks import ancestors, lock_above

NOTICED = timedelta(seconds=1)  # in the queue; a run that is taken sooner costs no statement more


def pause_deadlines(run: Run, now: datetime | None = None) -> None:
    """Extend the deadlines if an approval, an input request or a call that waits for its device is open."""
    ends = [open_until(Approval, run), open_until(InputRequest, run), device_calls.waits_until(run.pk)]
    last = max((end for end in ends if end), default=None)
    if last is None:
        return
    longest = last - (now or clock.near())
    if longest <= timedelta():
        return
    move_deadlines([run.pk, *ancestors(run)], longest)
    Run.objects.filter(pk=run.pk).update(paused_until=last)
    run.paused_until = last
    if run.deadline:
        run.deadline += longest


def open_until(rows: type[Approval] | type[InputRequest], run: Run) -> datetime | None:
    open_rows = rows.objects.open().filter(run=run)
    return open_rows.aggregate(until=Max("expires_at"))["until"]


@transaction.atomic(savepoint=False)
def resume_deadlines(run: Run, now: datetime | None = None) -> None:
    """The person or the device has answered, or the time is over: take back the unused time, once."""
    if run.paused_until is None:
        return
    lock_above(run)
    unused = run.paused_until - (now or clock.near())
    remaining = max(unused, timedelta())
    still_paused = Run.objects.filter(pk=run.pk, paused_until=run.paused_until)
    if still_paused.update(paused_until=None):
        move_deadlines([run.pk, *ancestors(run)], -remaining)
    run.paused_until = None
    if run.deadline:
        run.deadline -= remaining


def give_back(run: Run, waited: timedelta) -> None:
    """The run stood so long in the queue. What is above it lives at least as long as it may."""
    if run.deadline is None or waited < NOTICED:
        return
    run.deadline += waited
    if run.parent_id is None:
        move_deadlines([run.pk], waited)
    else:  # its row is locked, and those above it come first
        transaction.on_commit(lambda: extend(run, waited))


@transaction.atomic(savepoint=False)
def extend(run: Run, waited: timedelta) -> None:
    above = list(ancestors(run))
    for pk in reversed(above):
        ends_sooner = Run.objects.live().filter(pk=pk, deadline__lt=run.deadline)
        ends_sooner.update(deadline=run.deadline)
    move_deadlines([run.pk], waited)


def move_deadlines(run_ids: list[Any], by: timedelta) -> None:
    for pk in reversed(run_ids):  # parents before their children, as everybody locks them
        rows = Run.objects.live().filter(pk=pk, deadline__isnull=False)
        rows.update(deadline=F("deadline") + by)
