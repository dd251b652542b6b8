"""How a worker takes a run: one conditional update, then one query for everything its first turn
needs.
"""

import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Coalesce

from agents.models import Hook
from plumbing import clock
from plumbing.statements import Select
from runs.events import outbox
from runs.events import record as events
from runs.models import Run, StepRun
from runs.models.run import TAKE, Seen

from . import budgets, fair_queue, limits, pauses
from .leases import KEEPER, worker_name
from .limits import LimitReached

Status = Run.Status
TRIES = 4
Pick = Callable[..., list[Any]]  # takes a run and returns its key, or an empty list


@transaction.atomic
def claim_run(run_id: str) -> Run | None:
    """The run, if it is free, and its event."""
    run = take_run(run_id, worker_name(), numbers=1)
    if run is not None:
        write_claimed_event(run)
    return run


def claim_next(pool: str, *, floor: int = 0) -> Run | None:
    """The best run that waits in this pool, claimed, and its event; None if there is none.

    `floor`: the highest priority to take if such runs wait; see fair_queue.floor.
    """
    pick: Pick = fair_queue.CHOOSE.keys
    for _ in range(TRIES):
        try:
            run = claim_next_run(pick, pool, floor)
        except LimitReached:
            pick = limits.take_within_limits
            continue
        except StillHeld:
            KEEPER.renew()  # late, since a clock jumped or the machine slept
            continue
        if run is None and floor:
            return claim_next(pool)
        return run
    return None


class StillHeld(Exception):
    """The lease of the chosen run has expired, but it is this process that works on it."""


@transaction.atomic
def claim_next_run(pick: Pick, pool: str, floor: int) -> Run | None:
    chosen = pick(pool=pool, floor=floor, worker=worker_name(), lease_s=settings.LEASE_S, numbers=1)
    if not chosen:
        return None
    run = TAKEN.first(run=chosen[0])
    if run is None:
        return None
    start_claimed_run(run)
    limits.check_limits(run)
    if run.claimed_from == Status.RUNNING and KEEPER.has_run(run.pk):
        raise StillHeld
    write_claimed_event(run)
    return run


def write_claimed_event(run: Run) -> None:
    """Its number was reserved by the statement that claimed the run."""
    entry = (how_claimed(run), {"attempt": run.attempt})
    events.write_events(run, [entry], run.last_event, is_heard=run.seen.is_heard)


def how_claimed(run: Run) -> str:
    if run.claimed_from == Status.RUNNING:
        return "run.recovered"
    return "run.started" if run.attempt == 1 else "run.resumed"


def take_run(run_id: Any, worker: str, *, numbers: int = 0) -> Run | None:
    """Take the run for this worker, or return None: of two claims one wins (a conditional update
    decides).

    `numbers` event numbers are reserved; the caller writes those events in the same transaction.
    """
    if not TAKE.run(run=run_id, worker=worker, lease_s=settings.LEASE_S, numbers=numbers):
        return None
    run = TAKEN.first(run=run_id)
    if run is not None:
        start_claimed_run(run)
    return run


def start_claimed_run(run: Run) -> None:
    run.seen = read_seen_columns(run)
    if run.claimed_from == Status.QUEUED:
        pauses.give_back(run, clock.near() - run.queued_at)
    if run.parent_id is None:
        pauses.resume_deadlines(run)
    elif run.paused_until is not None:  # its row is locked, and those above it come first
        transaction.on_commit(lambda: pauses.resume_deadlines(run))


def read_seen_columns(run: Any) -> Seen:
    """The annotated values. Which budgets cover a run is open until its agent is known."""
    return Seen(
        at=time.monotonic(),
        is_heard=run.is_heard,
        is_budgeted=run.is_budgeted or run.agent_id is None,
        is_followed=run.is_followed,
        is_hooked=run.is_hooked,
        last_seq=run.session.last_seq if run.session else 0,
        more_runs=run.more_runs,
        more_steps=run.more_steps,
        provider_limit=run.provider_limit,
        team=run.limiting_team,
        team_limit=run.team_limit,
    )


PRINCIPAL, AGENT, EMBED = OuterRef("principal_id"), OuterRef("agent_id"), OuterRef("embed")
ROOT = OuterRef("pk")  # the budgets of a child run are read anyway
TAKEN = Select(
    lambda at: (
        Run.objects.select_related("agent", "session")
        .annotate(
            is_heard=outbox.listeners(PRINCIPAL),
            is_budgeted=Exists(budgets.of_work(PRINCIPAL, AGENT, ROOT, EMBED, shared=OuterRef(AGENT))),
            is_hooked=Exists(Hook.objects.of_work(AGENT, shared=OuterRef(AGENT)).order_by()),
            is_followed=Exists(
                Run.objects.filter(after_id=OuterRef("pk"), status=Status.QUEUED, finished_at=None).order_by()
            ),
            more_runs=Exists(Run.objects.filter(place__isnull=False, pool=OuterRef("pool")).order_by()),
            more_steps=Exists(StepRun.objects.filter(place__isnull=False, pool=OuterRef("pool")).order_by()),
            provider_limit=F("agent__provider__max_running"),
            limiting_team=Coalesce("agent__team", "chain_version__chain__team"),
            team_limit=Coalesce("agent__team__max_running", "chain_version__chain__team__max_running"),
        )
        .filter(pk=at.run)
        .order_by()
    ),
    run=models.UUIDField(),
)
