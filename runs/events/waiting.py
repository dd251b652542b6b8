"""Waits for a run's end without polling: by its announcement, on a thread or on the event loop."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from django.utils.dateparse import parse_datetime

from plumbing.broker.announcements import Announcements, LoopWaiter, Waiter
from plumbing.threads import in_thread, release_connection
from runs.exceptions import RunGone
from runs.models import Run, RunEvent
from runs.models.run import RUN_JOINS

from .connection_limits import Place

# A broker that was unavailable loses messages; rows are not lost.
LOOK_AGAIN_S = 15.0
# Seconds between looks at the rows while nothing is heard.
BROKER_AWAY_S = 1.0
# Runs that one query of the lookout reads.
LOOK_AT_ONCE = 500
AT_WORK = (Run.Status.QUEUED, Run.Status.RUNNING)
ENDS = Announcements("ends", remembered=4096)
News = dict[str, Any]


def never() -> bool:
    return False


class End:
    """The end of a run, to be waited for at most `timeout` seconds or until the place is given up.

    A run that waits for a person or its caller is announced too: `or_else` then says whether to stop
    waiting. The row is only read if the announcement may have been missed: no listener yet, or it
    takes long.
    """

    def __init__(
        self, run_id: Any, timeout: float, place: Place | None = None, *, or_else: Callable[[], bool] = never
    ) -> None:
        self.run_id = run_id
        self.or_else = or_else
        self.place = place or Place()
        self.deadline = time.monotonic() + timeout

    def wait(self) -> News | None:
        """Data of run.finished, or None if the wait ended first. Keeps this thread."""
        is_heard = ENDS.is_heard()
        with ENDS.waiter(self.run_id, Waiter) as waiter:
            self.place.wake = waiter.tell
            while True:
                release_connection()
                # Without a listener the announcement may have been missed: look at once.
                wait_s = min(self.left(), LOOK_AGAIN_S) if is_heard else 0
                if waiter.wait(wait_s) and waiter.news:
                    return waiter.news
                is_over, news = self.look()
                if is_over:
                    return news
                is_heard = True

    async def come(self) -> News | None:
        """The same on the event loop, without a thread. Rows are read for all waits at once."""
        is_heard = ENDS.is_heard()
        with ENDS.waiter(self.run_id, LoopWaiter) as waiter:
            self.place.wake = waiter.tell
            LOOKOUT.add(self)
            try:
                while True:
                    wait_s = self.left() if is_heard else 0
                    if await waiter.wait(wait_s) and waiter.news:
                        return waiter.news
                    is_over, news = await in_thread(self.look)
                    if is_over:
                        return news
                    is_heard = True
            finally:
                LOOKOUT.discard(self)

    def left(self) -> float:
        """Seconds until the wait is over."""
        if self.place.is_dismissed:
            return 0
        return self.deadline - time.monotonic()

    def look(self) -> tuple[bool, News | None]:
        """(whether the wait is over, data of run.finished), from the rows. Raises RunGone."""
        ended = read_end(self.run_id)
        if ended:
            return True, ended
        if not Run.objects.filter(pk=self.run_id).exists():
            raise RunGone(hint="Look at your conversation, then send the message again.")
        is_over = self.or_else() or self.left() <= 0
        return is_over, None


def wait_for_end(
    run_id: Any, timeout: float, place: Place | None = None, *, or_else: Callable[[], bool] = never
) -> News | None:
    """Keeps this thread; see End."""
    return End(run_id, timeout, place, or_else=or_else).wait()


def read_end(run_id: Any) -> News | None:
    """The data of run.finished, from its row."""
    row = RunEvent.objects.filter(run_id=run_id, type="run.finished").select_related("payload").first()
    if row is None:
        return None
    if row.data.get("is_cut"):
        return row.payload.data
    return row.data


class Lookout:
    """Finds the announcements that the loop's waits missed: one query for up to 500 of them."""

    def __init__(self) -> None:
        self.ends: set[End] = set()
        self.work: asyncio.Task[None] | None = None

    def add(self, end: End) -> None:
        self.ends.add(end)
        if self.work is None or self.work.done():
            self.work = asyncio.create_task(self.look_out())

    def discard(self, end: End) -> None:
        self.ends.discard(end)

    async def look_out(self) -> None:
        """While anybody waits."""
        while self.ends:
            await asyncio.sleep(LOOK_AGAIN_S if ENDS.is_heard() else BROKER_AWAY_S)
            waiting = list(self.ends)
            for start in range(0, len(waiting), LOOK_AT_ONCE):
                some = waiting[start : start + LOOK_AT_ONCE]
                states = await in_thread(at_rest, [end.run_id for end in some])
                for end in some:
                    # A run that is gone will not end any more.
                    has_ended = states.get(end.run_id, True)
                    is_resting = has_ended is False
                    if has_ended or (is_resting and end.or_else is not never):
                        end.place.wake()


def at_rest(run_ids: list[Any]) -> dict[Any, bool | None]:
    """Of each of these runs, unless it is gone: has it ended? None while it is queued or at work."""
    states: dict[Any, bool | None] = {}
    for pk, status, finished_at in Run.objects.filter(pk__in=run_ids).values_list("pk", "status", "finished_at"):
        states[pk] = None if status in AT_WORK else finished_at is not None
    return states


LOOKOUT = Lookout()


def apply_end(run: Run, ended: dict[str, Any]) -> Run:
    """The run as its last event describes it, so that its row is not read again."""
    if run.agent_id is None:
        return Run.objects.select_related(*RUN_JOINS).get(pk=run.pk)
    run.status = ended["status"]
    run.output = ended["output"]
    run.error = ended["error"]
    run.turns = ended["turns"]
    run.started_at = parse_datetime(ended["started_at"] or "")
    run.finished_at = parse_datetime(ended["finished_at"] or "")
    for name, number in ended["usage"].items():
        setattr(run, name, number)
    for name, number in ended["counts"].items():
        setattr(run, name, number)
    return run
