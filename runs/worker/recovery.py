"""Recovers what was lost: expired leases, unsent queue messages, waits and approvals past their
time.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from agents.models import SiteHold
from devices import calls as device_calls
from devices import presence
from plumbing import clock
from runs.events import record as events
from runs.lifecycle import budgets, endings, queue
from runs.models import Approval, Run

from . import external

log = logging.getLogger(__name__)
STALE_QUEUED_S = 15  # a queued run that no worker took is sent again after this; the claim makes duplicates harmless
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
        "reclaimed": resend_lost(now),
        "resent": resend_queued(now),
    }


def expire_approvals(now: datetime) -> int:
    """Apply the default decision to expired approvals; their runs continue at once."""
    due = Approval.objects.open().filter(expires_at__lte=now).select_related("run")[:BATCH]
    return sum(expire(approval, now) for approval in due)


@transaction.atomic
def expire(approval: Approval, now: datetime) -> bool:
    endings.lock(approval.run_id)
    status = Approval.Status.EXPIRED
    if approval.default == Approval.Default.APPROVE:
        status = Approval.Status.APPROVED
    if not Approval.objects.open().filter(pk=approval.pk).update(status=status, decided_at=now, note="by its deadline"):
        return False
    told = {"id": str(approval.pk), "status": status, "by": "deadline", "note": ""}
    events.record(approval.run, "approval.decided", told)
    endings.wake(approval.run_id)
    return True


def expire_runs(now: datetime) -> int:
    """Waiting or queued past the deadline. A running one notices itself, or its lease expires."""
    late = Run.objects.filter(status__in=[Run.Status.WAITING, Run.Status.QUEUED], deadline__lte=now)[:BATCH]
    error = {"code": "deadline", "message": "the run's deadline passed"}
    return sum(endings.finish(run, Run.Status.EXPIRED, error=error) for run in late)


def expire_device_calls(now: datetime) -> int:
    return sum(endings.wake(run_id, waiting_for="device") for run_id in device_calls.expire_due(now))


def wake_due(now: datetime) -> int:
    due = Run.objects.filter(status=Run.Status.WAITING, wake_at__lte=now).values_list("pk", flat=True)[:BATCH]
    return sum(endings.wake(pk) for pk in due)


def release_orphans(now: datetime) -> int:
    """A message queued behind a run that has ended without releasing it."""
    orphans = Run.objects.filter(status=Run.Status.QUEUED, after__status__in=Run.DONE).values_list("pk", flat=True)[
        :BATCH
    ]
    found = list(orphans)
    Run.objects.filter(pk__in=found).update(after=None, queued_at=now)
    for pk in found:
        queue.enqueue(pk)
    return len(found)


def resend_lost(now: datetime) -> int:
    """Runs whose worker stopped renewing its lease. The next claim finds them in RUNNING and counts
    the crash.
    """
    expired = Run.objects.filter(status=Run.Status.RUNNING, lease_expires_at__lt=now)
    lost = expired.exclude(trigger=Run.Trigger.EXTERNAL).values_list("pk", flat=True)[:BATCH]
    return sum(queue.send(queue.EXECUTE_RUN, str(pk)) for pk in lost)


def resend_queued(now: datetime) -> int:
    """Queued rows whose message was lost: the broker was down, or lost it."""
    before = now - timedelta(seconds=STALE_QUEUED_S)
    stale = Run.objects.filter(status=Run.Status.QUEUED, after=None, queued_at__lt=before)
    found = list(stale.exclude(trigger=Run.Trigger.EXTERNAL).values_list("pk", flat=True)[:BATCH])
    Run.objects.filter(pk__in=found, status=Run.Status.QUEUED).update(queued_at=now)
    return sum(queue.send(queue.EXECUTE_RUN, str(pk)) for pk in found)
