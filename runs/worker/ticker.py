"""Starts recurring work: the one worker that holds the duty “ticks” does it for all.

Every worker runs a ticker. One holds the lease of the duty and renews it; the others look now and then
whether it has expired. Nothing breaks if two work at the same time, because each due time,
delivery and lost run is claimed in its own row.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from connectors.logins import checking
from knowledge.indexing import accounts
from knowledge.indexing import work as indexing
from plumbing import clock, threads
from runs.queue import job_leases, timers
from runs.queue.leases import worker_name
from runs.schedules import tick as schedules
from runs.schedules import triggers
from runs.worker import document_vectors, memory_summaries, webhooks
from runs.worker.notices import sending
from runs.worker.traces import export

from . import anomaly_notices, deactivated, pruning, recovery, remote_tasks

log = logging.getLogger(__name__)
# The duty whose holder ticks: it starts all other recurring work.
TICKS = "ticks"
# A dead ticker is replaced after this time, or after a run's lease if that is shorter.
LONGEST_LEASE_S = 10.0
# Between two turns of the worker that ticks.
PERIOD_S = 1.0
# The least time between two due times: what is due together is started together.
LEAST_REST_S = 0.02
# How often the worker that ticks looks for rare work that is due.
RARE_LOOK_S = 30.0
# Another worker may do rare work again after this time, if the first one has not finished it.
RARE_LEASE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Job:
    """Recurring work that starts every `every_s` seconds. A rare job is due so long after its last end."""

    name: str
    every_s: float
    work: Callable[[], Any]


def start_due() -> None:
    """Schedules and triggers that are due."""
    schedules.tick_schedules()
    triggers.tick_triggers()


def start_scheduled(moment: datetime) -> None:
    """Schedules that are due at this moment, which the clock of this machine has reached."""
    schedules.tick_schedules(max(clock.now(), moment))


OFTEN = (
    Job("schedules", 1, start_due),
    Job("deliveries", 1, webhooks.send_due),
    Job("notices-of-approvals", 2, sending.tick_notices),
    Job("lost-notices", 60, sending.take_back),
    Job("waits", 1, recovery.start_waiting),
    Job("lost", 1, recovery.line_up_lost),
    Job("recovery", 5, recovery.tick_recovery),
    Job("deactivated", 2, deactivated.stop_deactivated_accounts),
    Job("remote-tasks", 5, remote_tasks.start_due),
    Job("traces", 5, export.tick_traces),
    Job("collections", 1, indexing.index_waiting_documents),
    Job("vectors", 2, document_vectors.start_due),
    Job("accounts", 5, accounts.start_due),
    Job("memory-summaries", 15, memory_summaries.tick_memory_summaries),
)
RARELY = (
    Job("notices", 600, anomaly_notices.tick_anomalies),
    Job("check-logins", 3600, checking.check_logins),
    Job("pruning", 86_400, pruning.prune),
)


# Work that is also started at each due time between two turns. If one is missed, the jobs above find it.
ON_TIME: tuple[tuple[str, Callable[[datetime], Any]], ...] = (
    ("schedules", start_scheduled),
    ("waits", recovery.start_waiting),
)


class Ticker:
    """One thread that keeps the lease and starts the jobs, each on a thread of a small pool."""

    def __init__(self, name: str = "") -> None:
        self.name = name or worker_name()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.tick_for_ever, name="ticker", daemon=True)
        self.pool = ThreadPoolExecutor(len(OFTEN) + len(RARELY), thread_name_prefix="job")
        # Name of a job → when it is due, on the monotonic clock.
        self.next: dict[str, float] = {}
        self.at_work: dict[str, Future] = {}
        # Whether the rows of all duties are there.
        self.is_ready = False
        # When to renew the lease, on the monotonic clock; 0 while another process ticks.
        self.renew_at = 0.0
        self.alarm = timers.Alarm()

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Start nothing more and give up the duty. Jobs that run are not waited for."""
        self.stopping.set()
        self.alarm.switch_off()
        self.thread.join()
        self.pool.shutdown(wait=False, cancel_futures=True)

    def tick_for_ever(self) -> None:
        while not self.stopping.is_set():
            self.rest(self.turn())
        if self.renew_at:
            attempt(job_leases.release_duty, TICKS, self.name)

    def rest(self, seconds: float) -> None:
        """Sleep until the next turn. The worker that ticks wakes at each due time before it and starts its work."""
        if not self.renew_at:
            self.stopping.wait(seconds)
            return
        end = time.monotonic() + seconds
        after = clock.near()
        while not self.stopping.is_set():
            rest_s = end - time.monotonic()
            if rest_s <= 0:
                return
            next_due_at = attempt(timers.next_after, after, rest_s)
            moment = self.alarm.sleep(rest_s, next_due_at)
            if moment is None:
                return
            for name, work in ON_TIME:
                if not self.do(name, partial(work, moment)):
                    # It still works for an earlier moment: try this one again.
                    self.alarm.add(moment)
            after = max(after, moment)
            self.stopping.wait(LEAST_REST_S)

    def turn(self) -> float:
        """Start the work that is due, if this worker ticks. Returns the seconds until the next turn."""
        if time.monotonic() >= self.renew_at and not attempt(self.lead):
            self.renew_at = 0.0
            # At random, so that the workers that stand by do not look at the same time.
            return lease_s() / 3 * random.uniform(0.8, 1.2)  # noqa: S311
        for job in OFTEN:
            if self.is_due(job.name, job.every_s):
                self.do(job.name, job.work)
        if self.is_due("rare", RARE_LOOK_S):
            self.do("rare", self.start_rare)
        return PERIOD_S

    def lead(self) -> bool:
        """Take the duty or renew its lease. False if another worker has it."""
        began = time.monotonic()
        if not self.is_ready:
            ensure_rows()
            self.is_ready = True
        if not job_leases.take_duty(TICKS, self.name, lease_s()):
            # A database that failed over may have lost the rows.
            self.is_ready = job_leases.exists(TICKS)
            return False
        self.alarm.listen()
        self.renew_at = began + lease_s() / 3
        return True

    def is_due(self, name: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self.next.get(name, 0.0):
            return False
        # Half a period less: a turn that comes a little early is still the right one.
        self.next[name] = now + every_s - PERIOD_S / 2
        return True

    def do(self, name: str, work: Callable[[], Any]) -> bool:
        """Start the work on a thread of the pool. False if it is still at work from the last time."""
        earlier = self.at_work.get(name)
        if earlier is not None and not earlier.done():
            return False
        self.at_work[name] = self.pool.submit(attempt, work)
        return True

    def start_rare(self) -> None:
        """Start the rare jobs that are due. They may take long: their rows say who does them, and when again."""
        ensure_rows()
        due = set(job_leases.find_unowned_duties().values_list("name", flat=True))
        for job in RARELY:
            if job.name in due and job_leases.take_duty(job.name, self.name, RARE_LEASE_S):
                self.do(job.name, partial(self.do_rare, job))

    def do_rare(self, job: Job) -> None:
        try:
            job.work()
        finally:
            job_leases.finish_duty(job.name, self.name, job.every_s)


def lease_s() -> float:
    return min(LONGEST_LEASE_S, settings.LEASE_S)


def ensure_rows() -> None:
    job_leases.ensure_duty(TICKS)
    for job in RARELY:
        job_leases.ensure_duty(job.name, job.every_s)


def attempt(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the work, or None if it failed: the next turn tries again."""
    try:
        return threads.run_with_connection(work, *arguments)
    except (DatabaseError, InterfaceError) as error:
        log.warning("The database did not answer: %s", error)
    except Exception:  # one duty must not keep the others from their turn
        log.exception("%s failed", getattr(work, "__name__", work))
    return None
