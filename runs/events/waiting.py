"""Waits for a run's end without polling and without an event loop: requests wait for its
announcement.
"""

import time
from collections.abc import Callable
from typing import Any

from plumbing.announcements import Announcements
from plumbing.threads import release_connection
from runs.models import RunEvent

from .places import Place

LOOK_AGAIN_S = 15.0  # a broker that was unavailable loses messages; rows are not lost
ENDS = Announcements("ends", remembered=4096)


def never() -> bool:
    return False


def wait_for_end(
    run_id: Any, timeout: float, place: Place | None = None, *, or_else: Callable[[], bool] = never
) -> dict[str, Any] | None:
    """Data of run.finished, or None if the run has not ended within `timeout` seconds or the place
    is given up.

    A run that waits for a person or its caller is announced too: `or_else` then says whether to stop
    waiting. The row is only read if the announcement may have been missed: no listener yet, or it takes
    long.
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
            if or_else() or place.is_dismissed or time.monotonic() >= deadline:
                return None
            is_heard = True


def read_end(run_id: Any) -> dict[str, Any] | None:
    """The data of run.finished, from its row."""
    row = RunEvent.objects.filter(run_id=run_id, type="run.finished").select_related("payload").first()
    if row is None:
        return None
    return row.payload.data if row.data.get("is_cut") else row.data
