"""Wait for a run's end without polling or an event loop: requests wait for its announcement."""

import time
from typing import Any

from plumbing.announcements import Announcements
from plumbing.threads import release_connection
from runs.models import RunEvent

from .places import Place

LOOK_AGAIN_S = 15.0  # a broker that was away loses messages, rows do not
ENDS = Announcements("ends", remembered=4096)


def wait_for_end(run_id: Any, timeout: float, place: Place | None = None) -> dict[str, Any] | None:
    """Data of run.finished, or None when the run has not ended within `timeout` seconds or the place is given up.

    The row is read only where the announcement may have been missed: nobody listened yet, or it is long in coming.
    """
    deadline = time.monotonic() + timeout
    is_heard, place = ENDS.is_heard(), place or Place()
    with ENDS.waiter(run_id) as waiter:
        place.wake = lambda: waiter.lines.put(b"")
        while True:
            left = deadline - time.monotonic() if is_heard and not place.is_dismissed else 0
            release_connection()
            if waiter.wait(min(left, LOOK_AGAIN_S)) and waiter.news:
                return waiter.news
            if ended := read_end(run_id):
                return ended
            if place.is_dismissed or time.monotonic() >= deadline:
                return None
            is_heard = True


def read_end(run_id: Any) -> dict[str, Any] | None:
    """What run.finished says, from its row."""
    row = RunEvent.objects.filter(run_id=run_id, type="run.finished").select_related("payload").first()
    if row is None:
        return None
    return row.payload.data if row.data.get("is_cut") else row.data
