"""The order in which rows are locked, so that no two transactions wait for each other: a parent before its children, a
run before its session, its steps, calls and approvals, and those before budgets.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from runs.models import Run


def lock_run(run_id: Any) -> None:
    """Lock this run's row until the transaction ends."""
    rows = Run.objects.select_for_update(no_key=True).filter(pk=run_id)
    list(rows.order_by().values_list("pk"))


@contextmanager
def hold_run(run_id: Any) -> Iterator[None]:
    """A transaction that locks this run's row first, then changes its steps, calls or approvals."""
    with transaction.atomic():
        lock_run(run_id)
        yield


def lock_above(run: Run, *, ends_below: bool = False) -> None:
    """Before its own row: its parent, which is written to when it ends, and while it is paused all above it. So too
    if runs below it end with it (`ends_below`), of which one may be paused.
    """
    is_deep = run.parent_id != run.root_id
    above: list[Any] = []
    if run.paused_until is not None or (ends_below and is_deep):
        above = list(ancestors(run))
    elif run.parent_id:
        above = [run.parent_id]
    for pk in reversed(above):
        lock_run(pk)


def ancestors(run: Run) -> Iterator[Any]:
    """The keys of its parent and of what is above that, nearest first."""
    parent = run.parent_id
    while parent is not None:
        yield parent
        parent = Run.objects.filter(pk=parent).values_list("parent_id", flat=True).first()
