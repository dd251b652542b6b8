"""Leases: which worker works on what. One thread per process renews all its leases and receives
cancellations.

A run in progress holds a lease. When a worker dies the lease expires, and the run may be claimed
again.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.db.models import Subquery

from plumbing import clock
from plumbing.broker import broadcast
from plumbing.broker.listener import LISTENER
from plumbing.threads import ProcessThread
from runs.exceptions import LeaseLost
from runs.models import Run, StepRun

from . import workers

log = logging.getLogger(__name__)
BATCH = 1000  # leases that one statement renews
AGAIN_S = (0.05, 0.2, 1.0)  # pauses before leases are renewed again because somebody was writing to a row
CANCELS = broadcast.name_channel("cancels")


def worker_name() -> str:
    """host:pid of this process, also correct after a fork."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}"


class Lease:
    """One run held by this process."""

    def __init__(self, run: Run) -> None:
        self.run_id = str(run.pk)
        self.attempt = run.attempt
        self.owner = run.lease_owner
        self.cancelled = threading.Event()
        self.lost = threading.Event()
        if run.cancel_requested_at:
            self.cancelled.set()

    def is_cancelled(self) -> bool:
        return self.cancelled.is_set() or self.lost.is_set()

    def rows(self) -> Any:
        """The run's row as long as it is ours: every write of the runner uses this. Raises LeaseLost."""
        return Run.objects.filter(pk=self.run_id, **self.conditions())

    def conditions(self) -> dict[str, Any]:
        """The same as columns, for a statement that is more than an update. Raises LeaseLost."""
        if self.lost.is_set():
            raise LeaseLost(self.run_id)
        return {"lease_owner": self.owner, "attempt": self.attempt, "status": Run.Status.RUNNING}

    def write(self, **fields: Any) -> None:
        if not self.rows().update(**fields):
            self.lost.set()
            raise LeaseLost(self.run_id)

    def check(self, run: Mapping[str, Any]) -> None:
        if run["cancel_requested_at"]:
            self.cancelled.set()
        is_mine = run["attempt"] == self.attempt and run["lease_owner"] == self.owner
        if not is_mine or run["status"] != Run.Status.RUNNING:
            self.lost.set()


class StepLease:
    """Some step rows of one run, with the interface of a run's lease that tool calls need."""

    def __init__(self, run: Run, rows: Iterable[Any] = (), *, owner: str = "") -> None:
        self.run_id = str(run.pk)
        self.owner = owner
        self.pks = [str(pk) for pk in rows]
        self.cancelled = threading.Event()
        if run.cancel_requested_at:
            self.cancelled.set()

    def is_cancelled(self) -> bool:
        return self.cancelled.is_set()

    def renew(self) -> None:
        mine = StepRun.objects.filter(pk__in=self.pks, status=StepRun.Status.RUNNING, lease_owner=self.owner)
        prolong(mine)

    def check(self, run: Mapping[str, Any]) -> None:
        if run["cancel_requested_at"] or run["status"] in Run.DONE:
            self.cancelled.set()


class Keeper:
    """Renews and listens from the first lease on; its thread ends with the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.leases: dict[str, set[Lease | StepLease]] = {}  # by run
        self.thread = ProcessThread("leases", self.renew_for_ever)

    def add(self, lease: Lease | StepLease) -> None:
        with self.lock:
            of_run = self.leases.setdefault(lease.run_id, set())
            if isinstance(lease, Lease):
                lose_later(of_run, lease.attempt)
            of_run.add(lease)
        self.start()

    def start(self) -> None:
        """Begin to renew, to report this worker and to listen, once in each process."""
        with self.lock:
            if not self.thread.is_started():
                self.thread.start()
                LISTENER.subscribe(CANCELS, self.hear)

    def remove(self, lease: Lease | StepLease) -> None:
        with self.lock:
            of_run = self.leases.get(lease.run_id, set())
            of_run.discard(lease)
            if not of_run:
                self.leases.pop(lease.run_id, None)

    def held(self) -> list[Lease | StepLease]:
        leases: list[Lease | StepLease] = []
        with self.lock:
            for of_run in self.leases.values():
                leases += of_run
        return leases

    def of_run(self, run_id: str) -> list[Lease | StepLease]:
        with self.lock:
            return list(self.leases.get(run_id, ()))

    def has_run(self, run_id: Any) -> bool:
        """A thread of this process still works on the run, whatever became of its lease."""
        leases = self.of_run(str(run_id))
        return any(isinstance(lease, Lease) for lease in leases)

    def is_at_work_on(self, run_id: str) -> bool:
        """This process holds the run, however late its renewal is: a clock may have jumped."""
        for lease in self.of_run(str(run_id)):
            if isinstance(lease, Lease) and not lease.lost.is_set() and lease.rows().exists():
                return True
        return False

    def renew_for_ever(self) -> None:
        """No error ends this thread: other workers would take the runs of this process."""
        while True:
            time.sleep(settings.LEASE_S / 3)
            try:
                self.renew_and_close()
            except DatabaseError as error:
                log.warning("Leases were not renewed: %s", error)
            except RuntimeError as error:  # the process is shutting down, or is a test without a database
                log.debug("Leases were not renewed: %s", error)
            except Exception:  # this thread renews the leases of all runs here: it must not end
                log.exception("Leases were not renewed")

    def renew_and_close(self) -> None:
        try:
            self.renew()
        finally:
            for opened in connections.all(initialized_only=True):
                opened.close()

    def renew(self) -> None:
        """Extend the held leases; notice lost and cancelled ones."""
        held = self.held()
        close_old_connections()
        number_of_runs = sum(isinstance(lease, Lease) for lease in held)
        workers.report_worker(worker_name(), runs=number_of_runs)
        for start in range(0, len(held), BATCH):
            self.renew_each(held[start : start + BATCH])

    def renew_each(self, held: list[Lease | StepLease]) -> None:
        """The leases of runs together, then those of steps, and one statement to look at all."""
        ids = {lease.run_id for lease in held if isinstance(lease, Lease)}
        runs = Run.objects.filter(pk__in=ids, status=Run.Status.RUNNING, lease_owner=worker_name())
        renewed = prolong(runs)
        for lease in held:
            if isinstance(lease, StepLease):
                lease.renew()
        for pause_s in AGAIN_S:
            if renewed == len(ids) or renewed >= runs.count():  # the others were lost
                break
            time.sleep(pause_s)
            renewed = prolong(runs)
        all_ids = {lease.run_id for lease in held}
        rows = Run.objects.filter(pk__in=all_ids)
        columns = rows.values("pk", "attempt", "lease_owner", "status", "cancel_requested_at")
        states = {str(row["pk"]): row for row in columns}
        for lease in held:
            if lease.run_id in states:
                lease.check(states[lease.run_id])

    def hear(self, run_ids: bytes | None) -> None:
        """A cancel reaches the worker at once; if the broker is unavailable, the renewal notices
        it.
        """
        text = (run_ids or b"").decode()
        for run_id in text.split():
            for lease in self.of_run(run_id):
                lease.cancelled.set()


class Unlocked(Subquery):
    """The keys of those of these rows to which no other transaction is writing; they are locked. SQLite has one writer
    at a time.
    """

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(subquery)s FOR NO KEY UPDATE SKIP LOCKED)")


def prolong(rows: Any) -> int:
    """Renew the leases of these rows; how many. A row that is being written to is left out: who waits for it holds the
    others, and if the writing process stands still, all leases run out.
    """
    unlocked = Unlocked(rows.order_by().values("pk"))
    free = rows.model.objects.filter(pk__in=unlocked)
    return free.update(lease_expires_at=clock.Now(settings.LEASE_S))


def lose_later(held: Iterable[Lease | StepLease], attempt: int) -> None:
    """A database that failed over to an earlier state counts attempts anew: what this process still
    holds of the run from before is not what was claimed now, though the rows do not tell them apart.
    """
    for lease in held:
        if isinstance(lease, Lease) and lease.attempt >= attempt:
            lease.lost.set()


KEEPER = Keeper()
Held = TypeVar("Held", bound=Lease | StepLease)


@contextmanager
def hold_lease(lease: Held) -> Iterator[Held]:
    """A new lease, renewed until the block ends."""
    KEEPER.add(lease)
    try:
        yield lease
    finally:
        KEEPER.remove(lease)


def tell_cancelled(run_id: Any) -> None:
    """Notify the worker that holds this run, or steps of it. The renewal notices it too."""
    text = str(run_id).encode()
    KEEPER.hear(text)
    broadcast.publish_message(CANCELS, text)
