"""Recovers what was lost: expired leases, rows without a place in the queue, waits and approvals
past their time.
"""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import DateTimeField, Exists, Field, OuterRef, Q

from agents.models import SiteHold
from devices import calls as device_calls
from devices import presence
from devices.models import DeviceCall
from plumbing import clock
from plumbing.statements import Select
from runs.events import record as events
from runs.models import Approval, Run, ToolCallRecord
from runs.queue import budgets, endings, fair_queue, wakeups
from runs.queue.locks import lock_run

from . import external_runs

log = logging.getLogger(__name__)
BATCH = 500
# Behind its deadline: nobody will take it any more.
LONGEST_QUEUE = timedelta(days=1)


def tick_recovery(now: datetime | None = None) -> dict[str, int]:
    """One pass over everything that may be stuck; safe to run concurrently. Returns how many of
    each were recovered; nothing is while the site is on hold, and no deadline passes.
    """
    if SiteHold.current():
        return {}
    now = now or clock.now()
    return {
        "expired_approvals": expire_approvals(now) + close_undecidable(now),
        "expired_runs": expire_runs(now),
        "ended": end_cancelled(now),
        "lost_devices": presence.sweep(now),
        "expired_device_calls": expire_device_calls(now),
        "woken": wake_due(now),
        "answered": wake_answered(),
        "released": release_orphans(now),
        "vanished": external_runs.release_vanished(now),
        "released_holds": budgets.release_stale(now),
        "reclaimed": line_up_lost(now),
        "lined_up": line_up_queued(),
    }


def start_waiting(moment: datetime | None = None) -> None:
    """What waits for a time that has come: approvals expire, then runs continue. `moment` is a due
    time that this machine's clock has reached.
    """
    if SiteHold.current():
        return
    now = clock.now()
    # The database's clock may be a little behind this machine's.
    if moment and moment > now:
        now = moment
    expire_approvals(now)
    wake_due(now)


def expire_approvals(now: datetime) -> int:
    """Apply the default decision to expired approvals; their runs continue at once."""
    overdue = OVERDUE.all(now=now)
    return sum(expire_approval(approval, now) for approval in overdue)


def query_overdue_approvals(at: Any) -> Any:
    due = Approval.objects.open().filter(decided_at=None, expires_at__lte=at.now)
    return due.select_related("run").order_by("expires_at")[:BATCH]


OVERDUE = Select(query_overdue_approvals, now=DateTimeField())


def close_undecidable(now: datetime) -> int:
    """Questions that nobody is left to answer: the agent is no longer shared, or the person who decides has left or
    was deactivated. Their silence is not a yes, whatever the default is.
    """
    undecidable = UNDECIDABLE.all()
    return sum(expire_approval(approval, now, nobody=True) for approval in undecidable)


def query_undecidable_approvals(_: Any) -> Any:
    rows = Approval.objects.undecidable().filter(decided_at=None)
    return rows.select_related("run").order_by("expires_at")[:BATCH]


UNDECIDABLE = Select(query_undecidable_approvals)


@transaction.atomic
def expire_approval(approval: Approval, now: datetime, *, nobody: bool = False) -> bool:
    """Close a question by its deadline, or because there is nobody who may answer it."""
    lock_run(approval.run_id)
    status = Approval.Status.EXPIRED
    if approval.default == Approval.Default.APPROVE and not nobody:
        status = Approval.Status.APPROVED
    note = "nobody is left who may decide it" if nobody else "by its deadline"
    # A person may have decided while this waited for the lock.
    still_open = Approval.objects.open().filter(pk=approval.pk)
    if not still_open.update(status=status, decided_at=now, note=note):
        return False
    call = str(approval.call_id) if approval.call_id else None
    event_data = {
        "id": str(approval.pk),
        "call": call,
        "status": status,
        "by": "deadline",
        "note": note if nobody else "",
    }
    events.record_event(approval.run, "approval.decided", event_data)
    endings.wake(approval.run_id)
    return True


def expire_runs(now: datetime) -> int:
    """Past the deadline while they wait or are executed outside, or after their worker died, which may have been the
    last of its pool; in the queue, where no time of work passes, only a day later. Others notice themselves.
    """
    error = {"code": "deadline", "message": "the run's deadline passed"}
    runs = LATE.all(now=now, long_ago=now - LONGEST_QUEUE)
    return sum(endings.finish_run(run, Run.Status.EXPIRED, error=error) for run in runs)


def query_late_runs(at: Any) -> Any:
    is_below = Q(parent=OuterRef("pk")) | Q(root=OuterRef("pk"))
    queued_below = Run.objects.filter(is_below, status=Run.Status.QUEUED).filter(finished_at=None)
    # While a child is in the queue, no time of its parents' work passes either.
    is_resting = Q(status=Run.Status.WAITING) & ~Exists(queued_below)
    is_elsewhere = Q(trigger=Run.Trigger.EXTERNAL) | Q(lease_expires_at__lt=at.now)
    is_forgotten = Q(status=Run.Status.QUEUED, deadline__lte=at.long_ago)
    rows = Run.objects.filter(is_resting | is_elsewhere | is_forgotten, deadline__lte=at.now, finished_at=None)
    return rows.order_by("deadline")[:BATCH]


LATE = Select(query_late_runs, now=DateTimeField(), long_ago=DateTimeField())


def end_cancelled(now: datetime) -> int:
    """Cancelled runs whose worker died, which may have been the last of their pool."""
    ended = 0
    for run in STOPPED.all(now=now):
        error = endings.cancelled_error(run)
        ended += endings.finish_run(run, Run.Status.CANCELLED, error=error)
    return ended


def query_stopped_runs(at: Any) -> Any:
    rows = Run.objects.filter(status=Run.Status.RUNNING, lease_expires_at__lt=at.now, cancel_requested_at__isnull=False)
    return rows.order_by("lease_expires_at")[:BATCH]


STOPPED = Select(query_stopped_runs, now=DateTimeField())


def expire_device_calls(now: datetime) -> int:
    run_ids = device_calls.expire_due(now)
    return sum(endings.wake(run_id, waiting_for="device") for run_id in run_ids)


def wake_due(now: datetime) -> int:
    due = DUE.all(now=now)
    return sum(endings.wake(pk) for (pk,) in due)


def query_waking_runs(at: Any) -> Any:
    waiting = Run.objects.filter(status=Run.Status.WAITING, wake_at__lte=at.now)
    return waiting.order_by("wake_at").values_list("pk")[:BATCH]


DUE = Select(query_waking_runs, now=DateTimeField())


def wake_answered() -> int:
    """Runs whose device has answered, but whose web server was killed before it woke them."""
    answered = ANSWERED.all()
    return sum(endings.wake(pk) for (pk,) in answered)


def query_answered_runs(_: Any) -> Any:
    """The index is that of runs with a time to wake, which all that wait for a device have."""
    settled = DeviceCall.objects.filter(pk=OuterRef("pk"), finished_at__isnull=False)
    calls = ToolCallRecord.objects.filter(Exists(settled), run=OuterRef("pk"), outcome="", waiting_for="device")
    waiting = Run.objects.filter(Exists(calls.order_by()), status=Run.Status.WAITING, wake_at__isnull=False)
    return waiting.order_by("wake_at").values_list("pk")[:BATCH]


ANSWERED = Select(query_answered_runs)


def release_orphans(now: datetime) -> int:
    """A message queued behind a run that has ended without releasing it."""
    runs = ORPHANS.all()
    for run in runs:
        still_queued = Run.objects.filter(pk=run.pk, status=Run.Status.QUEUED)
        endings.release_follower(run, still_queued)
    return len(runs)


def query_orphaned_runs(_: Any) -> Any:
    following = Run.objects.filter(status=Run.Status.QUEUED, after__isnull=False, finished_at=None)
    return following.filter(after__status__in=Run.DONE).order_by("after")[:BATCH]


ORPHANS = Select(query_orphaned_runs)


def line_up_lost(now: datetime | None = None) -> int:
    """Runs whose worker stopped renewing its lease get a place. The next claim finds them in RUNNING
    and counts the crash.
    """
    return line_up(LOST, now=now or clock.now())


def query_lost_runs(at: Any) -> Any:
    """The order is that of the index."""
    rows = Run.objects.filter(SiteHold.absent(), status=Run.Status.RUNNING, lease_expires_at__lt=at.now)
    return filter_unplaced(rows).order_by("lease_expires_at")


def line_up_queued() -> int:
    """Queued rows without a place: an older Muster stored them, or a person changed them by hand."""
    return line_up(FORGOTTEN)


def query_forgotten_runs(_: Any) -> Any:
    rows = Run.objects.filter(status=Run.Status.QUEUED, after=None, finished_at=None)
    return filter_unplaced(rows).order_by("status", "pk")


def filter_unplaced(rows: Any) -> Any:
    return rows.filter(place=None).exclude(trigger=Run.Trigger.EXTERNAL)


class Unplaced:
    """Runs without a place: a look without a lock, since there are hardly ever any, and the rows themselves, without
    those that another process is changing.
    """

    def __init__(self, rows: Callable[[Any], Any], **slots: Field) -> None:
        def query_first(at: Any) -> Any:
            return rows(at).order_by().values_list("pk")[:1]

        def query_batch(at: Any) -> Any:
            return rows(at).select_for_update(skip_locked=True, no_key=True)[:BATCH]

        self.look = Select(query_first, **slots)
        self.rows = Select(query_batch, **slots)


def line_up(unplaced: Unplaced, **filters: Any) -> int:
    """All of these rows, a batch at a time: a worker that dies may have held thousands."""
    number = 0
    while unplaced.look.first(**filters):
        pools = line_up_some(unplaced, **filters)
        if not pools:
            # Another process has locked what there is.
            break
        for pool, rings in pools.items():
            wakeups.ring(pool, rings)
        number += pools.total()
    return number


@transaction.atomic
def line_up_some(unplaced: Unplaced, **filters: Any) -> Counter[str]:
    """How many runs of each pool got a place."""
    runs = unplaced.rows.all(**filters)
    fair_queue.line_up_again(runs)
    return Counter(run.pool for run in runs)


LOST = Unplaced(query_lost_runs, now=DateTimeField())
FORGOTTEN = Unplaced(query_forgotten_runs)
