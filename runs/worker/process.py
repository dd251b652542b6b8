"""The run pool of a process: takes runs and chain steps when a carrier wakes it, and does the recurring
work if no other process does.

Every process of Muster has one (`supervisor/programs.py`): those with a port beside their web server, and
those without. A Celery worker of the queue “runs” may hold one too (`config/celery.py`).
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic

from django.conf import settings
from django.db import DatabaseError

from runs.models import Run
from runs.queue import arrivals, choice
from runs.queue.choice import Takes
from runs.queue.leases import Lease

from . import runner
from .crew import Crew, most_runs
from .libraries import warm_in_background
from .pickup import Pickup, Work
from .release import release_all
from .ticker import Ticker
from .warmth import warm_up

log = logging.getLogger(__name__)
TAKES = {"web": Takes.UNSUSPECTED, "worker": Takes.ALL, "rescue": Takes.SUSPECTS}
GLANCE_S = 1.0  # at most so often it is looked for suspects
LAST_S = 1.0  # before the end: what can be continued elsewhere is released, and callers are answered


class Worker:
    """Made once in a process. The carrier's broker may be away: the worker then looks by itself.

    `role`: “web” beside a port, “worker” without one, “rescue” for suspects alone. `tell` is called in a “web” when
    suspects wait, which it must not take, and in a “rescue” when none do.
    """

    def __init__(self, role: str = "worker", tell: Callable[[], None] = lambda: None) -> None:
        self.role, self.tell = role, tell
        self.is_rescue = role == "rescue"
        self.pools = list(settings.WORKER_POOLS)
        self.crew = Crew(most_runs())
        self.work = Work(TAKES[role])
        self.pickup = Pickup(self.work.do, self.pools, self.crew, self.look_for_suspects, listens=not self.is_rescue)
        self.ticker = None if self.is_rescue else Ticker()
        self.glance = threading.Lock()
        self.next_glance = 0.0
        self.changing = threading.Lock()  # a signal to stop may come while it starts, on another thread
        self.is_started = False

    def start(self) -> None:
        """Come back when the first run would find everything loaded."""
        with self.changing:
            warm_up()
            self.pickup.start()
            if self.ticker:
                self.ticker.start()
            if self.is_rescue:
                for pool in self.pools:
                    self.pickup.ring(pool)
            warm_in_background()
            self.is_started = True
            if not self.is_rescue:
                arrivals.Here.room = self

    # The room of runs that are stored by this process (runs/queue/arrivals.py)

    def reserve(self, pool: str) -> bool:
        return pool in self.pools and not self.pickup.stopping.is_set() and self.crew.reserve()

    def give_back(self) -> None:
        self.crew.finish()

    def begin(self, run: Run, lease: Lease) -> None:
        self.crew.begin(runner.carry_out, run, lease)

    def take_next(self, pool: str, floor: int) -> None:
        more = partial(self.pickup.ring, pool, only_first=True)
        self.crew.begin(self.work.run_above, floor, pool, more)

    def look_for_suspects(self) -> None:
        """After a look that found nothing."""
        with self.glance:
            if self.role == "worker" or monotonic() < self.next_glance:
                return
            self.next_glance = monotonic() + GLANCE_S
        try:
            some_wait = choice.has_suspects(self.pools)
        except DatabaseError as error:
            log.warning("Cannot look for suspects: %s", error)
            return
        is_over = not some_wait and self.crew.at_work <= 1  # this look
        if is_over if self.is_rescue else some_wait:
            self.tell()

    def stop(self, seconds: float | None = None) -> None:
        """Take nothing more, and come back when current work has ended.

        After `seconds`, runs that another process can continue are released; what is left has `LAST_S` to end.
        """
        with self.changing:
            if not self.is_started:
                return
        self.pickup.take_no_more()
        if self.ticker:
            self.ticker.stopping.set()
        if seconds is not None and not self.crew.is_idle(seconds):
            release_all()
            self.crew.is_idle(LAST_S)
        if self.ticker:
            self.ticker.stop()
        if seconds is None:
            self.pickup.stop()
