"""Occurrences that waited for a device: when it is back they start one after the other, so that it
is not flooded.

Each tick checks again, so it does not matter which process notices the device.
"""

from typing import Any
from uuid import UUID

from django.db.models import Q

from devices import presence
from runs.models import Run, ScheduleOccurrence

Outcome = ScheduleOccurrence.Outcome
BATCH = 1000
# A run that waits for a person or a time does not block the others.
AT_WORK = Q(status__in=[Run.Status.QUEUED, Run.Status.RUNNING]) | Q(
    status=Run.Status.WAITING, waiting_for__in=["child", "device"]
)
# (owner, device or None for any device of the owner).
Queue = tuple[Any, UUID | None]


def release_waiting_occurrences(owner_id: Any = None) -> int:
    """Start the first occurrence of each device's queue, if the device is online and none of its
    queue is in progress.
    """
    waiting = ScheduleOccurrence.objects.filter(outcome=Outcome.WAITING_DEVICE)
    if owner_id is not None:
        waiting = waiting.filter(schedule__owner_id=owner_id)
    rows = waiting.order_by("due_at", "id").values_list("pk", "schedule__owner_id", "schedule__device")[:BATCH]
    first: dict[Queue, UUID] = {}
    for pk, owner, device in rows:
        first.setdefault((owner, device), pk)
    released = 0
    for queue, pk in first.items():
        if presence.is_online(*queue) and not is_busy(queue):
            released += release_occurrence(pk)
    return released


def is_busy(queue: Queue) -> bool:
    owner, device = queue
    same = ScheduleOccurrence.objects.filter(
        schedule__owner_id=owner, schedule__device=device, schedule__wait_for_device=True
    )
    if same.filter(outcome=Outcome.DUE).exists():
        return True
    started = same.filter(outcome=Outcome.STARTED)
    return Run.objects.filter(AT_WORK, occurrences__in=started).exists()


def release_occurrence(pk: UUID) -> int:
    rows = ScheduleOccurrence.objects.filter(pk=pk, outcome=Outcome.WAITING_DEVICE)
    return rows.update(outcome=Outcome.DUE, reason="its device came online")
