"""Recovers what was lost: expired leases, rows without a place in the queue, waits and approvals
past their time.
"""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import DateTimeField

from agents.models import SiteHold
from devices import calls as device_calls
from devices import presence
from plumbing import clock
from plumbing.statements import Select
from runs.events import record as events
from runs.lifecycle import budgets, choice, endings, queue
from runs.models import Approval, Run

from . import external

log = logging.getLogger(__name__)
BATCH = 500


def tick(now: datetime | None = None) -> dict[str, int]:
    """One pass over everything that may be stuck; safe to run concurrently. Returns how many of
    each were recovered; nothing is while the site is on hold, and no deadline passes.
    """
    if SiteHold.current():
        return {}
    now = now or clock.now()
    return {
        "expired_approvals": expire_approvals(now),
        "expired_runs": expire_runs(now),
        "lost_devices": presence.sweep(now),
        "expired_device_calls": expire_device_calls(now),
        "woken": wake_due(now),
        "released": release_orphans(now),
        "vanished": external.release_vanished(now),
        "released_holds": budgets.release_stale(now),
        "reclaimed": line_up_lost(now),
        "lined_up": line_up_queued(),
    }


def expire_approvals(now: datetime) -> int:
    """Apply the default decision to expired approvals; their runs continue at once."""
    return sum(expire(approval, now) for approval in OVERDUE.all(now=now))


def overdue(at: Any) -> Any:
    due = Approval.objects.open().filter(decided_at=None, expires_at__lte=at.now)
    return due.select_related("run").order_by("expires_at")[:BATCH]


OVERDUE = Select(overdue, now=DateTimeField())


@transaction.atomic
def expire(approval: Approval, now: datetime) -> bool:
    endings.lock(approval.run_id)
    status = Approval.Status.EXPIRED
    if approval.default == Approval.Default.APPROVE:
        status = Approval.Status.APPROVED
    if not Approval.objects.open().filter(pk=approval.pk).update(status=status, decided_at=now, note="by its deadline"):
        return False
    call = str(approval.call_id) if approval.call_id else None
    told = {"id": str(approval.pk), "call": call, "status": status, "by": "deadline", "note": ""}
    events.record(approval.run, "approval.decided", told)
    endings.wake(approval.run_id)
    return True


def expire_runs(now: datetime) -> int:
    """Waiting or queued past the deadline. A running one notices itself, or its lease expires."""
    error = {"code": "deadline", "message": "the run's deadline passed"}
    return sum(endings.finish(run, Run.Status.EXPIRED, error=error) for run in LATE.all(now=now))


def late(at: Any) -> Any:
    resting = Run.objects.filter(status__in=[Run.Status.WAITING, Run.Status.QUEUED], finished_at=None)
    return resting.filter(deadline__lte=at.now).order_by("deadline")[:BATCH]


LATE = Select(late, now=DateTimeField())


def expire_device_calls(now: datetime) -> int:
    return sum(endings.wake(run_id, waiting_for="device") for run_id in device_calls.expire_due(now))


def wake_due(now: datetime) -> int:
    return sum(endings.wake(pk) for (pk,) in DUE.all(now=now))


def due(at: Any) -> Any:
    waiting = Run.objects.filter(status=Run.Status.WAITING, wake_at__lte=at.now)
    return waiting.order_by("wake_at").values_list("pk")[:BATCH]


DUE = Select(due, now=DateTimeField())


def release_orphans(now: datetime) -> int:
    """A message queued behind a run that has ended without releasing it."""
    found = ORPHANS.all()
    for run in found:
        endings.release(run, Run.objects.filter(pk=run.pk, status=Run.Status.QUEUED))
    return len(found)


def orphans(_: Any) -> Any:
    following = Run.objects.filter(status=Run.Status.QUEUED, after__isnull=False, finished_at=None)
    return following.filter(after__status__in=Run.DONE).order_by("after")[:BATCH]


ORPHANS = Select(orphans)


def line_up_lost(now: datetime | None = None) -> int:
    """Runs whose worker stopped renewing its lease get a place. The next claim finds them in RUNNING
    and counts the crash.
    """
    now = now or clock.now()
    return line_up(lambda: lost(now), LOST, now=now)


def lost(now: Any) -> Any:
    return unplaced(Run.objects.filter(SiteHold.absent(), status=Run.Status.RUNNING, lease_expires_at__lt=now))


def line_up_queued() -> int:
    """Queued rows without a place: an older Muster stored them, or a person changed them by hand."""
    return line_up(forgotten, FORGOTTEN)


def forgotten() -> Any:
    return unplaced(Run.objects.filter(status=Run.Status.QUEUED, after=None, finished_at=None))


def unplaced(rows: Any) -> Any:
    return rows.filter(place=None).exclude(trigger=Run.Trigger.EXTERNAL)


def line_up(rows: Callable[[], Any], first: Select, **given: Any) -> int:
    """All of these rows, a batch at a time: a worker that dies may have held thousands."""
    number = 0
    while found := first.all(**given):
        for run in found:
            rows().filter(pk=run.pk).update(place=choice.place_of(run))
        for pool, rings in Counter(run.pool for run in found).items():
            queue.ring(pool, rings)
        number += len(found)
    return number


# The order is that of the index.
LOST = Select(lambda at: lost(at.now).order_by("lease_expires_at")[:BATCH], now=DateTimeField())
FORGOTTEN = Select(lambda _: forgotten().order_by("status", "pk")[:BATCH])
