"""How a worker takes a run: one conditional update, then one query for everything its first turn
needs.
"""

import time
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Exists, OuterRef

from agents.models import Hook
from plumbing.statements import Select
from runs.events import outbox
from runs.events import record as events
from runs.models import Run
from runs.models.run import TAKE, Seen

from . import budgets, pauses
from .leases import worker_name

Status = Run.Status


@transaction.atomic
def claim(run_id: str) -> Run | None:
    """The run, if it is free, and its event."""
    run = take(run_id, worker_name(), numbers=1)
    if run is not None and run.seen is not None:
        told = (how_claimed(run), {"attempt": run.attempt})
        events.write(run, [told], run.last_event, is_heard=run.seen.is_heard)
    return run


def how_claimed(run: Run) -> str:
    if run.claimed_from == Status.RUNNING:
        return "run.recovered"
    return "run.started" if run.attempt == 1 else "run.resumed"


def take(run_id: Any, worker: str, *, numbers: int = 0) -> Run | None:
    """Take the run for this worker, or return None: of two claims one wins (a conditional update
    decides).

    `numbers` event numbers are reserved; the caller writes those events in the same transaction.
    """
    if not TAKE.run(run=run_id, worker=worker, lease_s=settings.LEASE_S, numbers=numbers):
        return None
    run = TAKEN.first(run=run_id)
    if run is not None:
        run.seen = seen(run)
        pauses.resume(run)
    return run


def seen(run: Any) -> Seen:
    """The annotated values. Which budgets cover a run is open until its agent is known."""
    return Seen(
        at=time.monotonic(),
        is_heard=run.is_heard,
        is_budgeted=run.is_budgeted or run.agent_id is None,
        is_followed=run.is_followed,
        is_hooked=run.is_hooked,
        last_seq=run.session.last_seq if run.session else 0,
    )


PRINCIPAL, AGENT = OuterRef("principal_id"), OuterRef("agent_id")
ROOT = OuterRef("pk")  # the budgets of a child run are read anyway
TAKEN = Select(
    lambda at: (
        Run.objects.select_related("agent", "session")
        .annotate(
            is_heard=outbox.listeners(PRINCIPAL),
            is_budgeted=Exists(budgets.of_work(PRINCIPAL, AGENT, ROOT, shared=OuterRef(AGENT))),
            is_hooked=Exists(Hook.objects.of_work(AGENT, shared=OuterRef(AGENT)).order_by()),
            is_followed=Exists(Run.objects.filter(after_id=OuterRef("pk"), status=Status.QUEUED).order_by()),
        )
        .filter(pk=at.run)
        .order_by()
    ),
    run=models.UUIDField(),
)
