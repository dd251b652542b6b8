"""A process that must stop gives the runs back that it is working on, for another one to continue at once.

What is not given back: a run with a call under way that must not be made twice. If that does not end in time, the
lease expires and the call is recovered as after a crash.
"""

import logging
from typing import Any

from django.db import DatabaseError, transaction

from agents.tools import may_repeat
from plumbing import clock
from runs.calls.callbacks import has_written
from runs.exceptions import LeaseLost
from runs.models import Run, ToolCallRecord
from runs.queue import choice, wakeups
from runs.queue.leases import KEEPER, Lease
from runs.queue.locks import lock

log = logging.getLogger(__name__)


def release_all() -> None:
    """All runs of this process that another one can continue."""
    for lease in KEEPER.held():
        if isinstance(lease, Lease) and not lease.lost.is_set():
            try:
                release(lease)
            except LeaseLost:
                continue
            except DatabaseError as error:
                log.warning("Run %s continues once its lease has expired: %s", lease.run_id, error)


@transaction.atomic
def release(lease: Lease) -> bool:
    """Queue this run again, from the front on: it has had its turn. False if it has a call that must not be made twice.

    Its row is locked, so no call can be recorded meanwhile. The lease counts as lost before the commit: a call that is
    recorded and has not left yet does not leave then.
    """
    lock(lease.run_id)
    mine = lease.conditions()
    run = Run.objects.filter(pk=lease.run_id, **mine).first()
    if run is None or has_effect_under_way(run):
        return False
    lease.lost.set()
    freed: dict[str, Any] = {"lease_owner": "", "lease_expires_at": None, "queued_at": clock.near()}
    place = choice.front_of(run.pool, run.priority)
    if run.change(Run.Status.QUEUED, where=mine, place=place, **freed) is not None:
        wakeups.enqueue(run)
    return True


def has_effect_under_way(run: Run) -> bool:
    calls = ToolCallRecord.objects.filter(run=run, outcome="", attempt__gt=0, waiting_for="")
    return any(not may_repeat(call.effect, call.kind) or has_written(call) for call in calls)
