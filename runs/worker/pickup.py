"""How a worker takes runs and chain steps: one thread reads the list, others do the work.

An entry is taken only when a thread is free, so that what this worker cannot start stays for
another. If a worker dies before it claimed the row, the recovery tick sends the entry again; a
claimed row has its lease.
"""

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis
from django.conf import settings
from django.db import close_old_connections

from plumbing.line import Line
from runs.chains import execution
from runs.lifecycle import queue

from . import runner

log = logging.getLogger(__name__)
LISTEN_S = 1  # seconds that one call listens; a stop is noticed after that
PAUSES_S = (0.05, 0.2, 1.0, 2.0)  # seconds between attempts to reach an unavailable broker


class Pickup:
    """Takes entries for at most `threads` pieces of work at once; `tasks` maps task names to
    functions.
    """

    def __init__(self, tasks: dict[str, Callable[..., None]], *, threads: int) -> None:
        self.tasks = tasks
        self.free = threading.Semaphore(threads)
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="run")
        self.stopping = threading.Event()
        self.failures = 0  # consecutive failures of the broker
        self.taker = threading.Thread(target=self.take_for_ever, name="pickup", daemon=True)

    def start(self) -> None:
        self.taker.start()

    def stop(self) -> None:
        """Take nothing more, and let current work finish."""
        self.stopping.set()
        self.taker.join()
        self.pool.shutdown(wait=True)

    def take_for_ever(self) -> None:
        broker = Line(settings.QUEUE_URL, timeout_s=LISTEN_S + 2)
        while not self.stopping.is_set():
            if not self.free.acquire(timeout=LISTEN_S):
                continue
            entry = None if self.stopping.is_set() else self.take(broker)
            if entry is None:
                self.free.release()
            else:
                self.pool.submit(self.work, entry)

    def take(self, broker: Line) -> bytes | None:
        """The next entry; None if none came for a while, or the broker is unavailable."""
        try:
            (entry,) = broker.ask(("BRPOP", queue.READY, LISTEN_S))
            self.failures = 0
            return entry[1] if entry else None
        except redis.RedisError as error:
            log.warning("Cannot take work from the queue: %s", error)
            self.stopping.wait(PAUSES_S[min(self.failures, len(PAUSES_S) - 1)])
            self.failures += 1
            return None

    def work(self, entry: bytes) -> None:
        """One entry. Errors are recorded in the row or found by the recovery tick; the thread
        continues.
        """
        try:
            close_old_connections()
            task, *arguments = json.loads(entry)
            self.tasks[task](*arguments)
        except Exception:
            log.exception("%s failed", entry[:200])
        finally:
            close_old_connections()
            self.free.release()


def for_worker(queues: Any) -> Pickup | None:
    """The pick-up of a worker that consumes the queue “runs”; other workers have none."""
    if "runs" not in queues:
        return None
    tasks = {queue.EXECUTE_RUN: runner.execute, queue.EXECUTE_STEP: execution.execute_step}
    return Pickup(tasks, threads=settings.WORKER_THREADS)
