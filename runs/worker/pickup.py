"""How a worker takes runs and chain steps: one thread reads the list, a crew does the work.

An entry is taken only when the crew has room, so that what this worker cannot start stays for
another. If a worker dies before it claimed the row, the recovery tick sends the entry again; a
claimed row has its lease.
"""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import redis
from django.conf import settings

from plumbing.line import Line
from runs.chains import execution
from runs.lifecycle import queue

from . import runner
from .crew import Crew, most_runs

log = logging.getLogger(__name__)
LISTEN_S = 1  # seconds that one call listens; a stop is noticed after that
PAUSES_S = (0.05, 0.2, 1.0, 2.0)  # seconds between attempts to reach an unavailable broker


class Pickup:
    """Takes entries while `crew` has room; `tasks` maps task names to functions."""

    def __init__(self, tasks: dict[str, Callable[..., None]], crew: Crew) -> None:
        self.tasks = tasks
        self.crew = crew
        self.stopping = threading.Event()
        self.failures = 0  # consecutive failures of the broker
        self.taker = threading.Thread(target=self.take_for_ever, name="pickup", daemon=True)

    def start(self) -> None:
        self.taker.start()

    def stop(self) -> None:
        """Take nothing more, and let current work finish."""
        self.stopping.set()
        self.taker.join()
        self.crew.stop()

    def take_for_ever(self) -> None:
        broker = Line(settings.QUEUE_URL, timeout_s=LISTEN_S + 2)
        while not self.stopping.is_set():
            if not self.crew.has_room(LISTEN_S) or self.stopping.is_set():
                continue
            if entry := self.take(broker):
                self.crew.submit(self.work, entry)

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
        """One entry. What fails is recorded in the row, or found by the recovery tick."""
        task, *arguments = json.loads(entry)
        self.tasks[task](*arguments)


def for_worker(queues: Any) -> Pickup | None:
    """The pick-up of a worker that consumes the queue “runs”; other workers have none."""
    if "runs" not in queues:
        return None
    tasks = {queue.EXECUTE_RUN: runner.execute, queue.EXECUTE_STEP: execution.execute_step}
    return Pickup(tasks, Crew(most_runs()))
