"""Who works on what. One thread a process renews the leases of all runs it holds and hears of cancellations.

A run in work holds a lease. A worker that dies stops renewing, and the run may be claimed again.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.utils import timezone

from plumbing import broadcast
from runs.exceptions import LeaseLost
from runs.models import Run

from . import workers

log = logging.getLogger(__name__)
CANCELS = "muster:cancels"


def worker_name() -> str:
    """host:pid of this process, computed after a fork too."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}"


class Lease:
    """One run in this process's hands."""

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
        """The run's row as long as it is ours: every write of the runner goes through this."""
        return Run.objects.filter(
            pk=self.run_id, lease_owner=self.owner, attempt=self.attempt, status=Run.Status.RUNNING
        )

    def conditions(self) -> dict[str, Any]:
        """The same as columns, for a statement that does more than an update."""
        return {"lease_owner": self.owner, "attempt": self.attempt, "status": str(Run.Status.RUNNING)}

    def write(self, **fields: Any) -> None:
        if not self.rows().update(**fields):
            self.lost.set()
            raise LeaseLost(self.run_id)


class Keeper:
    """Renews and listens while at least one lease is held; its threads end when the process does."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.leases: dict[str, Lease] = {}
        self.started_in = 0

    def add(self, lease: Lease) -> None:
        with self.lock:
            self.leases[lease.run_id] = lease
            if self.started_in != os.getpid():
                self.started_in = os.getpid()
                threading.Thread(target=self.renew_for_ever, name="leases", daemon=True).start()
                if broadcast.is_shared():
                    threading.Thread(target=self.listen_for_ever, name="cancels", daemon=True).start()

    def remove(self, lease: Lease) -> None:
        with self.lock:
            if self.leases.get(lease.run_id) is lease:
                del self.leases[lease.run_id]

    def held(self) -> list[Lease]:
        with self.lock:
            return list(self.leases.values())

    def renew_for_ever(self) -> None:
        while True:
            time.sleep(settings.LEASE_S / 3)
            try:
                self.renew()
            except DatabaseError as error:
                log.warning("Leases were not renewed: %s", error)
            except RuntimeError as error:  # the process is being taken down, or is a test without a database
                log.debug("Leases were not renewed: %s", error)
            finally:
                for opened in connections.all(initialized_only=True):
                    opened.close()

    def renew(self) -> None:
        """Extend what is held; notice what was lost or cancelled meanwhile."""
        held = {lease.run_id: lease for lease in self.held()}
        close_old_connections()
        workers.report(worker_name(), runs=len(held))
        if not held:
            return
        until = timezone.now() + timedelta(seconds=settings.LEASE_S)
        Run.objects.filter(pk__in=held, status=Run.Status.RUNNING, lease_owner=worker_name()).update(
            lease_expires_at=until
        )
        for row in Run.objects.filter(pk__in=held).values(
            "pk", "attempt", "lease_owner", "status", "cancel_requested_at"
        ):
            lease = held[str(row["pk"])]
            if row["cancel_requested_at"]:
                lease.cancelled.set()
            if (row["attempt"], row["lease_owner"]) != (lease.attempt, lease.owner) or row[
                "status"
            ] != Run.Status.RUNNING:
                lease.lost.set()

    def listen_for_ever(self) -> None:
        """A cancel reaches the worker at once; the renewal sees it too, should the broker be away."""
        while True:
            try:
                listener = redis.Redis.from_url(settings.CHANNEL_URL, socket_timeout=None).pubsub()
                listener.subscribe(CANCELS)
                for message in listener.listen():
                    if message["type"] == "message":
                        self.cancel(message["data"].decode())
            except redis.RedisError as error:
                log.info("Listening for cancellations again in a second: %s", error)
                time.sleep(1)

    def cancel(self, run_id: str) -> None:
        with self.lock:
            lease = self.leases.get(run_id)
        if lease is not None:
            lease.cancelled.set()


KEEPER = Keeper()


@contextmanager
def hold(run: Run) -> Iterator[Lease]:
    """The lease of a run just claimed, renewed until the block ends."""
    lease = Lease(run)
    KEEPER.add(lease)
    try:
        yield lease
    finally:
        KEEPER.remove(lease)


def tell_cancelled(run_ids: list[Any]) -> None:
    """Tell whichever worker holds these runs."""
    for run_id in run_ids:
        KEEPER.cancel(str(run_id))
    if broadcast.is_shared():
        try:
            broadcast.line().ask(*(("PUBLISH", CANCELS, str(run_id)) for run_id in run_ids))
        except redis.RedisError:
            pass  # the renewal sees the row
