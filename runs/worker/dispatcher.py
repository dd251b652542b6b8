"""How a worker takes runs and chain steps: a carrier wakes it, it chooses rows, a run pool does the work.

One thread listens to the carrier and one looks for work while the pool has room. A wake-up is
worth one look. A look that finds a run also learns whether more are waiting, so one wake-up is
enough for a long queue. The worker looks by itself every few seconds, in case a wake-up was lost.
"""

import logging
import random
import threading
from collections import deque
from collections.abc import Callable

from django.db import DatabaseError, close_old_connections

from runs.chains import execution
from runs.queue import carriers, claims, fair_queue, limits
from runs.queue.leases import KEEPER

from . import runner
from .run_pool import RunPool

log = logging.getLogger(__name__)
# Seconds between looks without a wake-up, on average.
LOOK_S = 4.0
# A stop is noticed after that.
WAIT_S = 1.0


class Work:
    """What a worker does: runs and steps take turns while both wait."""

    def __init__(self) -> None:
        # Turns while more was known to wait.
        self.turn = 0
        self.more_runs = False
        self.more_steps = False

    def do(self, pool: str, more: Callable[[], None]) -> bool:
        """Take the next row and work on it. `more` is called before that if others wait, and after it
        if a limit may have held others back. False if nothing was found.
        """
        if self.more_steps:
            return self.step(pool, more) or self.run(pool, more)
        return self.run(pool, more) or self.step(pool, more)

    def run(self, pool: str, more: Callable[[], None]) -> bool:
        floor = 0
        if self.more_runs:
            self.turn += 1
            floor = fair_queue.floor(self.turn)
        run = claims.claim_next(pool, floor=floor)
        if run is None:
            self.more_runs = False
            return False
        self.more_runs = run.seen.more_runs
        self.more_steps = run.seen.more_steps
        if self.more_runs or self.more_steps:
            more()
        runner.carry_out(run)
        if limits.limits(run):
            more()
        return True

    def step(self, pool: str, more: Callable[[], None]) -> bool:
        self.more_steps = False
        step = fair_queue.take_step(pool)
        if step is None:
            return False
        more()
        execution.execute_step(step)
        return True


class Dispatcher:
    """Looks for work in `pools` while `run_pool` has room."""

    def __init__(self, work: Callable[[str, Callable[[], None]], bool], pools: list[str], run_pool: RunPool) -> None:
        self.work = work
        self.pools = pools
        self.run_pool = run_pool
        # Of each pool, the numbers of wake-ups that are not answered yet.
        self.rung: dict[str, deque[int]] = {pool: deque() for pool in pools}
        self.number = 0
        self.changed = threading.Condition()
        self.stopping = threading.Event()
        listening = (pools, self.bell, self.stopping)
        self.carrier = carriers.current()
        self.threads = [
            threading.Thread(target=self.carrier.listen, args=listening, name="carrier", daemon=True),
            threading.Thread(target=self.look_for_ever, name="dispatcher", daemon=True),
        ]

    def start(self) -> None:
        # It renews the leases, and reports that this worker is there.
        KEEPER.start()
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """Take nothing more, and let current work finish."""
        self.stopping.set()
        with self.changed:
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()
        self.run_pool.stop()

    def bell(self, pool: str) -> None:
        """A wake-up. While there is no room it is passed on, and no further one is taken."""
        if not self.run_pool.has_room() and self.carrier.wakes_one:
            self.carrier.ring(pool)
        while not self.run_pool.has_room(WAIT_S) and not self.stopping.is_set():
            pass
        self.ring(pool)

    def ring(self, pool: str, *, only_first: bool = False) -> None:
        """Notes a wake-up. With `only_first`, one that is not answered yet is enough."""
        with self.changed:
            if only_first and self.rung[pool]:
                return
            self.number += 1
            self.rung[pool].append(self.number)
            self.changed.notify()

    def look_for_ever(self) -> None:
        while not self.stopping.is_set():
            pool = self.next_pool(LOOK_S * random.uniform(0.5, 1.5))  # noqa: S311 (spreads the workers)
            while not self.run_pool.has_room(WAIT_S) and not self.stopping.is_set():
                pass
            if self.stopping.is_set():
                return
            if pool is None:
                self.look_by_itself()
            else:
                self.run_pool.submit(self.look, pool)

    def next_pool(self, seconds: float) -> str | None:
        """The pool of the next wake-up, which is taken; None after so many seconds without one. The
        pools take turns.
        """
        with self.changed:
            self.changed.wait_for(lambda: any(self.rung.values()) or self.stopping.is_set(), seconds)
            pool = next((pool for pool in self.pools if self.rung[pool]), None)
            if pool is None:
                return None
            self.rung[pool].popleft()
            others = [one for one in self.pools if one != pool]
            self.pools = [*others, pool]
            return pool

    def look(self, pool: str) -> None:
        began = self.number
        if self.work(pool, lambda: self.ring(pool, only_first=True)):
            return
        # Nothing waited, which answers all wake-ups before the look.
        with self.changed:
            numbers = self.rung[pool]
            while numbers and numbers[0] <= began:
                numbers.popleft()

    def look_by_itself(self) -> None:
        """Look for waiting work without a wake-up, which may have been lost or have come when no thread
        was free.
        """
        try:
            for pool in fair_queue.waiting_pools(self.pools):
                self.ring(pool, only_first=True)
        except DatabaseError as error:
            log.warning("Cannot look for work: %s", error)
        finally:
            close_old_connections()
