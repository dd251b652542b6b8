"""Duties: which worker does the work that is done once for all workers (rows: runs/models/duty.py).

A duty is taken by one conditional update under a lease, by the clock of the database. A worker that
was replaced may still finish what it began: all this work is safe to do twice.
"""

from django.db.models import Q, QuerySet

from plumbing import clock
from runs.models import Duty


def take_duty(name: str, owner: str, lease_s: float) -> bool:
    """Try to take or keep the duty; True if this worker has it now."""
    mine = Duty.objects.filter(name=name, owner=owner, lease_expires_at__gt=clock.Now())
    is_kept = mine.update(lease_expires_at=clock.Now(lease_s))
    if is_kept:
        return True
    return take_free(name, owner, lease_s)


def take_free(name: str, owner: str, lease_s: float) -> bool:
    """Read first: workers that only stand by never write."""
    free = find_unowned_duties().filter(name=name)
    if not free.exists():
        return False
    is_taken = free.update(owner=owner, lease_expires_at=clock.Now(lease_s))
    return bool(is_taken)


def find_unowned_duties() -> QuerySet[Duty]:
    """The condition of a duty that is due and that no live worker holds."""
    is_due = Q(next_at=None) | Q(next_at__lte=clock.Now())
    is_free = Q(owner="") | Q(lease_expires_at__lte=clock.Now())
    return Duty.objects.filter(is_due, is_free)


def release_duty(name: str, owner: str) -> None:
    """A worker that stops gives it up at once."""
    mine = Duty.objects.filter(name=name, owner=owner)
    mine.update(owner="", lease_expires_at=None)


def finish_duty(name: str, owner: str, every_s: float) -> None:
    """It is done, and due again after this time."""
    mine = Duty.objects.filter(name=name, owner=owner)
    mine.update(owner="", lease_expires_at=None, done_at=clock.Now(), next_at=clock.Now(every_s))


def ensure_duty(name: str, every_s: float | None = None) -> None:
    """The row, if it is not there; first due after one period."""
    next_at = clock.Now(every_s) if every_s else None
    duty = Duty(name=name, next_at=next_at)
    Duty.objects.bulk_create([duty], ignore_conflicts=True)


def exists(name: str) -> bool:
    return Duty.objects.filter(name=name).exists()


def holder(name: str) -> str | None:
    """The worker that has this duty now."""
    held = Duty.objects.filter(name=name, lease_expires_at__gt=clock.Now()).exclude(owner="")
    return held.values_list("owner", flat=True).first()
