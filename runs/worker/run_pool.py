"""Who does a worker's work: many pieces of work on a few threads, each held only while there is
work.

Each thread is a hub (plumbing/waits.py): a run that waits for its model or a tool lends the thread
to others. What can only block runs on the threads of one pool. A database connection belongs to a
thread, so a run must not wait inside a transaction.
"""

import logging
import resource
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connections

from plumbing import threads
from plumbing.idle_thread_pool import RestingThreads
from plumbing.waits import Hub

log = logging.getLogger(__name__)
# Threads; while one waits for the database, others work.
HUBS = 8
# For the database, the broker, files and sandboxed processes.
SPARE_DESCRIPTORS = 500
Work = Callable[[], None]


class RunPool:
    """At most `size` pieces of work at once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = threading.Condition()
        # Submitted and not finished.
        self.at_work = 0
        self.queued: deque[Work] = deque()
        self.hubs: list[Hub] = []
        self.threads: list[threading.Thread] = []
        self.pool = Threads(settings.WORKER_THREADS, "blocking")
        self.is_stopping = False

    def has_room(self, timeout_s: float = 0) -> bool:
        """Whether one more piece of work would be begun soon; waits up to `timeout_s` for that. What
        waits for its turn is not taken from the list yet: something more urgent may come.
        """
        with self.changed:
            return self.changed.wait_for(self._has_room, timeout_s)

    def _has_room(self) -> bool:
        return self.at_work < self.size and len(self.queued) < HUBS

    def submit(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Run this soon on a thread of the pool. Its errors are logged; the rows and leases allow
        recovery.
        """
        with self.changed:
            self.at_work += 1
            self.queued.append(partial(self.do, work, *arguments))
            hub = next((hub for hub in self.hubs if hub.is_resting), None)
            if hub is not None:
                # The next piece is for another one.
                hub.is_resting = False
            elif len(self.hubs) < HUBS:
                self.add_hub()
        if hub is not None:
            hub.wake_up()

    def add_hub(self) -> None:
        hub = Hub(self.take, self.pool, is_outside_transaction)
        thread = threading.Thread(target=self.run, args=(hub,), name=f"run-pool-{len(self.hubs)}", daemon=True)
        self.hubs.append(hub)
        self.threads.append(thread)
        thread.start()

    def run(self, hub: Hub) -> None:
        try:
            hub.run()
        finally:
            connections.close_all()

    def take(self) -> Any:
        """The next piece of work for a hub."""
        try:
            work = self.queued.popleft()
        except IndexError:
            is_over = self.is_stopping and not self.at_work
            return Hub.STOP if is_over else None
        # Only now the queue has room again: then the dispatcher may take more.
        if len(self.queued) == HUBS - 1:
            with self.changed:
                self.changed.notify_all()
        return work

    def do(self, work: Callable[..., Any], *arguments: Any) -> None:
        try:
            discard_broken()
            work(*arguments)
        # What was not handled inside must not end the thread, which does other work next.
        except Exception:
            log.exception("%s%s failed", getattr(work, "__name__", work), arguments)
        finally:
            discard_broken()
            self.finish()

    def finish(self) -> None:
        with self.changed:
            self.at_work -= 1
            self.changed.notify_all()
            is_over = self.is_stopping and not self.at_work
        if is_over:
            self.wake_all()

    def stop(self) -> None:
        """Wait until everything that was submitted has ended."""
        self.is_stopping = True
        self.wake_all()
        for thread in self.threads:
            thread.join()
        self.pool.shutdown(wait=True)

    def wake_all(self) -> None:
        for hub in self.hubs:
            hub.wake_up()


class Threads(RestingThreads):
    """Threads that return their database connection after each piece of work."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        return super().submit(threads.run_with_connection, partial(work, **options), *arguments)


def is_outside_transaction() -> bool:
    return not any(connection.in_atomic_block for connection in connections.all(initialized_only=True))


def discard_broken() -> None:
    """After an error, close this thread's database connections: the next statement makes new ones."""
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred and not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def most_runs() -> int:
    """As many runs as the setting says and the descriptors allow: each holds a connection."""
    descriptors = settings.WORKER_RUNS + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < descriptors:
        soft = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= descriptors:
        return settings.WORKER_RUNS
    allowed = max(1, soft - SPARE_DESCRIPTORS)
    log.warning("At most %s runs at once: the limit of open files is %s (ulimit -n).", allowed, soft)
    return allowed
