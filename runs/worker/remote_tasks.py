"""Tells remote agents (A2A) to stop, whose task outlives the run that asked for it."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet

from agents.models import SiteHold
from connectors.models import RemoteTask
from connectors.toolsets import a2a
from plumbing import clock
from plumbing.fair import FairQueue, of_others
from runs.models import Run, ToolCallRecord

# Whose agent hangs delays nobody else.
QUEUE = FairQueue("remote-task", at_once=8, each=2)
# How long an agent that cannot be reached is tried.
TRIED_FOR = timedelta(hours=1)


def start_due() -> int:
    """Begin to cancel what is left, at most a few tasks of each person. Returns how many."""
    begun: list[UUID] = []

    def find_next(without: list[int]) -> ToolCallRecord | None:
        call = find_left(without, [*QUEUE.find_keys(), *begun]).first()
        if call is not None:
            begun.append(call.pk)
        return call

    return QUEUE.fill(find_next, lambda call: call.run.principal_id, cancel)


def find_left(without: Sequence[int] = (), under_way: Sequence[UUID] = ()) -> QuerySet[ToolCallRecord]:
    """The calls with open tasks whose runs have ended, such as one that was cancelled while it waited for a task."""
    tasks = RemoteTask.objects.filter(is_open=True).exclude(pk__in=under_way)
    calls = ToolCallRecord.objects.filter(SiteHold.absent(), run__status__in=Run.DONE, pk__in=tasks.values("pk"))
    calls = of_others(calls, "run__principal", without)
    return calls.select_related("run").order_by("id")


def cancel(call: ToolCallRecord) -> None:
    row = RemoteTask.objects.select_related("connection").filter(pk=call.pk, is_open=True).first()
    if row is None:
        return
    a2a.cancel_left(row, call.run.principal_id)
    if not row.is_open:
        return
    ended = call.run.finished_at
    if ended and ended < clock.near() - TRIED_FOR:
        row.close()
