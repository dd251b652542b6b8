"""Deletes what ended runs hold, so that it no longer counts in their person's quota. The rows of the runs stay: who ran
what, when, how it ended and what it cost.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict
from functions.models import Execution
from runs.models import (
    Approval,
    EventPayload,
    InputRequest,
    Message,
    ModelCall,
    Run,
    RunEvent,
    RunValue,
    Session,
    StepRun,
    ToolCallRecord,
)
from runs.models.run import EMPTIED

# Rows that one transaction deletes or empties: it keeps others from writing meanwhile, and SQLite overwrites what it
# deletes. Large rows may hold a megabyte each.
BATCH = 500
LARGE_BATCH = 20
RUNS_AT_ONCE = 20
MESSAGE_BYTES = 4_000_000  # of messages that one transaction deletes
LONGEST = 200  # characters of why a run failed, which stay


def find_session_runs(session: Session) -> list[UUID]:
    """The runs of a conversation and those that they started."""
    is_below = Q(root__session=session)
    return list(Run.objects.filter(Q(session=session) | is_below).values_list("pk", flat=True))


def empty_run(run: Run) -> None:
    """And what it started. Raises Conflict unless it has ended, with the run that it is a part of."""
    root = run.root or run
    if not (run.is_done and root.is_done):
        raise Conflict(_("This run has not ended."), hint=_("Cancel it first, or wait."))
    below = Run.objects.filter(root=run.pk).values_list("pk", flat=True)
    empty_runs([run.pk, *below])


def empty_runs(ids: Sequence[UUID]) -> int:
    """Those of these runs that have ended, with what they are a part of; returns how many.

    Must not be called in a transaction: it takes many short ones.
    """
    total = 0
    for some in split(ids, RUNS_AT_ONCE):
        is_root_done = Q(root=None) | Q(root__finished_at__isnull=False)
        ended = Run.objects.filter(is_root_done, pk__in=some, finished_at__isnull=False)
        keys = list(ended.values_list("pk", flat=True))
        if keys:
            empty_batch(keys)
        total += len(keys)
    return total


def empty_batch(ids: Sequence[UUID]) -> None:
    delete_in_batches(EventPayload.objects.filter(event__run__in=ids), LARGE_BATCH)
    delete_in_batches(RunEvent.objects.filter(run__in=ids))
    delete_in_batches(RunValue.objects.filter(run__in=ids), LARGE_BATCH)
    change_in_batches(ToolCallRecord.objects.filter(run__in=ids), arguments={}, result=None, error=None, printed="")
    change_in_batches(ModelCall.objects.filter(run__in=ids), request=None, response=None, error=None)
    change_in_batches(StepRun.objects.filter(run__in=ids), input=None, output=None, error=None)
    change_in_batches(Approval.objects.filter(run__in=ids), arguments={}, edited_arguments=None, findings=[])
    change_in_batches(InputRequest.objects.filter(run__in=ids), prompt="", arguments={}, value=None, state=None)
    change_in_batches(
        Execution.objects.filter(run__in=ids), arguments={}, result=None, error=None, printed="", requests=[], size=None
    )
    shorten_errors(ids)
    # Last: if this process ends before, they still count, and are emptied again.
    nothing = {"input": None, "output": None, "policy": {}, "size": None, "stored": 0}
    Run.objects.filter(pk__in=ids).update(**nothing, metadata={EMPTIED: True})


def shorten_errors(ids: Sequence[UUID]) -> None:
    """Why a run failed stays, but not what it repeats of its contents."""
    for run in Run.objects.filter(pk__in=ids, error__isnull=False).only("error"):
        code = run.error.get("code", "")
        message = str(run.error.get("message", ""))
        Run.objects.filter(pk=run.pk).update(error={"code": code, "message": message[:LONGEST]})


def delete_messages(session: Session) -> None:
    """All of a conversation in which nothing begins any more, a few megabytes at a time."""
    while keys := find_first_messages(session):
        Message.objects.filter(pk__in=keys).delete()


def is_long(session: Session) -> bool:
    """Whether its messages are more than one transaction deletes."""
    return session.messages.count() > len(find_first_messages(session))


def find_first_messages(session: Session) -> list[UUID]:
    """The first messages of a conversation, as many as one transaction deletes; at least one, if there is any."""
    keys: list[UUID] = []
    total = 0
    for pk, size in session.messages.order_by("seq").values_list("pk", "size")[:BATCH]:
        total += size or 0
        if keys and total > MESSAGE_BYTES:
            break
        keys.append(pk)
    return keys


def delete_in_batches(rows: QuerySet[Any], size: int = BATCH) -> int:
    """Delete rows of this kind, one short transaction per batch; returns how many."""
    total = 0
    while keys := list(rows.order_by().values_list("pk", flat=True)[:size]):
        with transaction.atomic():
            rows.model._base_manager.filter(pk__in=keys).delete()
        total += len(keys)
    return total


def change_in_batches(rows: QuerySet[Any], **values: Any) -> int:
    """Set columns of these rows, one short statement per batch; returns how many."""
    keys = list(rows.order_by().values_list("pk", flat=True))
    for some in split(keys, LARGE_BATCH):
        rows.model._base_manager.filter(pk__in=some).update(**values)
    return len(keys)


def split(keys: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
