"""Step rows in this process's hands: their leases renewed, a cancelled run noticed within a second."""

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.utils import timezone

from runs.models import Run, StepRun

log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0


class StepLease:
    """Some rows of one run; shaped like a run's lease as far as tool calls ask."""

    def __init__(self, run_id: Any, rows: Iterable[Any]) -> None:
        self.run_id = str(run_id)
        self.rows = [str(pk) for pk in rows]
        self.cancelled = threading.Event()

    def is_cancelled(self) -> bool:
        return self.cancelled.is_set()


class StepKeeper:
    """One thread a process, at work while at least one lease is held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.leases: set[StepLease] = set()
        self.started_in = 0

    def add(self, lease: StepLease) -> None:
        with self.lock:
            self.leases.add(lease)
            if self.started_in != os.getpid():
                self.started_in = os.getpid()
                threading.Thread(target=self.look_for_ever, name="step-leases", daemon=True).start()

    def remove(self, lease: StepLease) -> None:
        with self.lock:
            self.leases.discard(lease)

    def look_for_ever(self) -> None:
        renewed = time.monotonic()
        while True:
            time.sleep(LOOK_EVERY_S)
            with self.lock:
                held = list(self.leases)
            if not held:
                continue
            try:
                close_old_connections()
                self.notice_cancelled(held)
                if time.monotonic() - renewed > settings.LEASE_S / 3:
                    self.renew(held)
                    renewed = time.monotonic()
            except DatabaseError as error:
                log.warning("Step leases were not renewed: %s", error)
            finally:
                for connection in connections.all(initialized_only=True):
                    connection.close()

    def notice_cancelled(self, held: list[StepLease]) -> None:
        wanted = Run.objects.filter(pk__in={lease.run_id for lease in held})
        stopped = {
            str(pk)
            for pk, asked, status in wanted.values_list("pk", "cancel_requested_at", "status")
            if asked or status in Run.DONE
        }
        for lease in held:
            if lease.run_id in stopped:
                lease.cancelled.set()

    def renew(self, held: list[StepLease]) -> None:
        until = timezone.now() + timedelta(seconds=settings.LEASE_S)
        for lease in held:
            StepRun.objects.filter(pk__in=lease.rows, status=StepRun.Status.RUNNING).update(lease_expires_at=until)


KEEPER = StepKeeper()


@contextmanager
def hold(run_id: Any, rows: Iterable[Any]) -> Iterator[StepLease]:
    lease = StepLease(run_id, rows)
    KEEPER.add(lease)
    try:
        yield lease
    finally:
        KEEPER.remove(lease)


def hold_step(row: StepRun) -> Any:
    return hold(row.run_id, [row.pk])
