"""Due times, exact to a tenth of a second: of waiting runs, of schedules.

The ticker (`runs/worker/ticker.py`) reads the next due time from the rows once a second, and sleeps
until then. A process that stores an earlier one publishes it, and the ticker hears it on any host. A
lost message costs a second.
"""

import heapq
import threading
from datetime import UTC, datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import DateTimeField, Q

from plumbing import clock
from plumbing.broker import broadcast
from plumbing.broker.listener import LISTENER
from plumbing.statements import Select
from runs.models import Run, Schedule, ScheduleOccurrence

CHANNEL = broadcast.name_channel("timers")
SOON_S = 3.0  # the ticker reads the rows more often than that
MOST_TOLD = 1000


def expect(moment: datetime | None) -> None:
    """A row with this due time is stored in this transaction."""
    if moment is not None:
        transaction.on_commit(partial(announce_moment, moment))


def announce_moment(moment: datetime) -> None:
    """A time that has passed is found by the ticker's next look, so that nothing goes round at once."""
    is_soon = timedelta() < moment - clock.near() < timedelta(seconds=SOON_S)
    if is_soon:
        message = str(moment.timestamp()).encode()
        broadcast.publish_unconfirmed([(CHANNEL, message)])


def bring_forward(run: Run, moment: datetime) -> None:
    """Something in the run is due then: if the run waits, it is woken no later."""
    is_later = Q(wake_at=None) | Q(wake_at__gt=moment)
    waiting = Run.objects.filter(is_later, pk=run.pk, status=Run.Status.WAITING)
    if waiting.update(wake_at=moment):
        expect(moment)


def next_after(after: datetime, seconds: float) -> datetime | None:
    """The first due time after this moment and within so many seconds."""
    until = after + timedelta(seconds=seconds)
    moments = []
    for query in (WAKES, DUE, STARTS):
        row = query.first(after=after, until=until)
        if row is not None:
            moments.append(row[0])
    return min(moments, default=None)


WITHIN = {"after": DateTimeField(), "until": DateTimeField()}
WAKES = Select(
    lambda at: (
        Run.objects.filter(status=Run.Status.WAITING, wake_at__gt=at.after, wake_at__lte=at.until)
        .order_by("wake_at")
        .values_list("wake_at")[:1]
    ),
    **WITHIN,
)
DUE = Select(
    lambda at: (
        Schedule.objects.filter(enabled=True, next_due_at__gt=at.after, next_due_at__lte=at.until)
        .order_by("next_due_at")
        .values_list("next_due_at")[:1]
    ),
    **WITHIN,
)
STARTS = Select(  # after the jitter
    lambda at: (
        ScheduleOccurrence.objects.filter(
            outcome=ScheduleOccurrence.Outcome.DUE, start_at__gt=at.after, start_at__lte=at.until
        )
        .order_by("start_at")
        .values_list("start_at")[:1]
    ),
    **WITHIN,
)


class Alarm:
    """Sleeps until the next due time. Other threads tell it of earlier ones."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.told: list[datetime] = []
        self.is_off = False

    def listen(self) -> None:
        LISTENER.subscribe(CHANNEL, self.hear)

    def hear(self, data: bytes | None) -> None:
        """Due times that were stored in another process, or in this one."""
        if data:
            self.add(datetime.fromtimestamp(float(data), UTC))

    def add(self, moment: datetime) -> None:
        with self.changed:
            if len(self.told) < MOST_TOLD:  # what is left out is found in the rows
                heapq.heappush(self.told, moment)
                self.changed.notify()

    def switch_off(self) -> None:
        with self.changed:
            self.is_off = True
            self.changed.notify()

    def sleep(self, seconds: float, next_due: datetime | None = None) -> datetime | None:
        """Until a due time has come, which is returned, or for so many seconds."""
        end = clock.read_steady_seconds() + seconds
        with self.changed:
            while not self.is_off and (rest_s := end - clock.read_steady_seconds()) > 0:
                moment = min(filter(None, [next_due, *self.told[:1]]), default=None)
                waits_s = (moment - clock.near()).total_seconds() if moment else rest_s
                if moment and waits_s <= 0:
                    self.forget(moment)
                    return moment
                self.changed.wait(min(rest_s, waits_s))
        return None

    def forget(self, moment: datetime) -> None:
        while self.told and self.told[0] <= moment:
            heapq.heappop(self.told)
