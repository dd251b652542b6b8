"""Wakes workers, after the commit of the rows that they are to take (`runs/queue/fair_queue.py`).

Runs and chain steps are rows with a place in the queue; a carrier (`runs/queue/carriers/`) says that
there are some.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import transaction

from runs.models import Run
from runs.queue import carriers

from . import fair_queue

MOST_RINGS = 32  # for many rows at once: a worker that takes one looks for the next by itself


def enqueue(run: Run) -> None:
    """Wake a worker for this run, which has its place."""
    enqueue_all([run])


def enqueue_all(runs: Sequence[Run]) -> None:
    rings_of_pools = Counter(run.pool for run in runs)
    for pool, rings in rings_of_pools.items():
        transaction.on_commit(partial(ring, pool, rings))


def enqueue_step(run: Run, step: Any, slots: Any = 1, **mark: Any) -> None:
    """Let `slots` workers work on this step (a QuerySet of its row); `mark` are further columns."""
    key = {"principal_id": run.principal_id, "pool": run.pool, "priority": run.priority}
    place = fair_queue.step_place(run)
    step.update(**key, place=place, slots=slots, **mark)
    # An expression (more slots than before) says no number: whoever wakes finds out by itself.
    rings = slots if isinstance(slots, int) else 1
    transaction.on_commit(partial(ring, run.pool, rings))


def ring(pool: str, rings: int = 1) -> None:
    """False answers are ignored: workers also look by themselves."""
    for _ in range(min(rings, MOST_RINGS)):
        if not carriers.current().ring(pool):
            return
