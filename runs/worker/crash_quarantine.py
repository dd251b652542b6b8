"""Suspects: runs during which several workers died. A worker works on one of them at a time, so that
the next death has one cause and takes no other suspect along.

While a suspect waits for its model or another program, another one may have its turn. A worker that
dies counts against the run whose turn it was.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from plumbing import waits
from plumbing.database import DATABASE_GONE
from plumbing.threads import release_connection
from runs.exceptions import LeaseLost, RunWaits
from runs.loop.conversation import check_alive
from runs.models import Run
from runs.queue.leases import Lease

# How often a suspect looks whether it is its turn.
LOOK_S = 0.05


class Turn:
    """What one suspect has, or waits for."""

    def __init__(self, run: Run, lease: Lease) -> None:
        self.run = run
        self.lease = lease
        # It waits, and another one may take its turn.
        self.is_resting = False

    def blame(self, deaths: int) -> None:
        """Workers that died during its turns, if this one dies now. Raises LeaseLost."""
        self.lease.write(crashes=self.run.crashes + deaths)

    def is_suspect(self) -> bool:
        """Not any more, once it has completed a turn of its model."""
        return self.run.crashes >= Run.SUSPECT


class Suspects:
    """Those of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turn: Turn | None = None

    @contextmanager
    def alone(self, run: Run, lease: Lease) -> Iterator[None]:
        """Work on this suspect when it is its turn. Raises RunEnded if it ends before that, LeaseLost."""
        turn = Turn(run, lease)
        release_connection()
        while not self.take(turn):
            waits.sleep_until(LOOK_S)
            check_alive(run, lease)
        try:
            # A claim counts no more deaths of a suspect.
            turn.blame(1)
            with waits.around(lambda: self.rest(turn)):
                yield
        except RunWaits:
            # It survived.
            lease.write(crashes=0)
            raise
        finally:
            self.leave(turn)

    def take(self, turn: Turn) -> bool:
        """Whether it has its turn now: no other suspect had one, or that one waits."""
        with self.lock:
            earlier = None if self.turn is turn else self.turn
            if earlier is not None and not earlier.is_resting:
                return False
            self.turn = turn
            turn.is_resting = False
        if earlier is not None:
            # A death from now on is not due to the one that rests.
            with suppress(LeaseLost):
                earlier.blame(0)
        return True

    def leave(self, turn: Turn) -> None:
        with self.lock:
            if self.turn is turn:
                self.turn = None

    @contextmanager
    def rest(self, turn: Turn) -> Iterator[None]:
        """Others may have their turn until the block ends."""
        turn.is_resting = True
        try:
            yield
        # The wait failed, and the run handles that; a worker that stops does not go on.
        except Exception:
            self.go_on(turn)
            raise
        self.go_on(turn)

    def go_on(self, turn: Turn) -> None:
        """It has its turn again, or has to stop, or is no suspect any more. This is in the middle of a
        request, so nothing is raised: the request notices by itself that the run was stopped.
        """
        if not turn.is_suspect():
            self.leave(turn)
            return
        with self.lock:
            if self.turn is turn:
                turn.is_resting = False
                return
        while not self.take(turn):
            if turn.lease.is_cancelled():
                return
            waits.sleep_until(LOOK_S)
        with suppress(LeaseLost, *DATABASE_GONE):
            turn.blame(1)
        release_connection()


SUSPECTS = Suspects()
