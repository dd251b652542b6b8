"""Where many devices' sockets ask the database at once.

`in_batch` is for what only reads and writes rows: all that waits shares one transaction where the database is SQLite,
which has one writer. Five hundred devices that come back would else take turns in sleeping for it.
"""

import asyncio
import os
import queue
import threading
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, connection, transaction

from plumbing.threads import Work, answer, in_thread

MAX_BATCH = 32


@dataclass(frozen=True, slots=True)
class Job:
    work: Work
    arguments: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future

    def run(self) -> Any:
        """Its value, or the exception it raised."""
        try:
            with transaction.atomic():
                return self.work(*self.arguments)
        except Exception as error:  # raised where it is awaited
            return error

    def tell(self, outcome: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(conclude, self.future, outcome)
        except RuntimeError:  # the loop has closed: nobody waits any more
            pass


class Batches:
    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.started_in = 0

    async def ask(self, work: Work, *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        if self.started_in != os.getpid():
            self.started_in = os.getpid()
            threading.Thread(target=self.work_for_ever, name="device-sockets", daemon=True).start()
        job = Job(work, arguments, loop, loop.create_future())
        self.jobs.put(job)
        return await job.future

    def work_for_ever(self) -> None:
        while True:
            batch = [self.jobs.get()]
            while len(batch) < MAX_BATCH and not self.jobs.empty():
                batch.append(self.jobs.get())
            answer(together, [job for job in batch if not job.future.cancelled()])


BATCHES = Batches()


async def in_batch(work: Work, *arguments: Any) -> Any:
    """Without effects beside the rows: these are not there yet when it returns, only when this does."""
    if connection.vendor == "sqlite":
        return await BATCHES.ask(work, *arguments)
    return await in_thread(work, *arguments)


def together(jobs: list[Job]) -> None:
    """One transaction, a savepoint each: who fails fails alone."""
    try:
        with transaction.atomic():
            outcomes = [job.run() for job in jobs]
    except DatabaseError as error:
        outcomes = [error] * len(jobs)
    for job, outcome in zip(jobs, outcomes, strict=True):
        job.tell(outcome)


def conclude(future: asyncio.Future, outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
