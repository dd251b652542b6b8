"""Database work of many device sockets.

`in_batch` is for work that only reads and writes rows: on SQLite, with its single writer,
everything that waits shares one transaction. Otherwise five hundred reconnecting devices would
queue for the writer.
"""

import asyncio
import queue
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, connection, transaction

from plumbing.threads import ProcessThread, Work, answer, in_thread

MAX_BATCH = 32


@dataclass(frozen=True, slots=True)
class Job:
    work: Work
    arguments: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future

    def run(self) -> Any:
        """The value, or the exception that was raised."""
        try:
            with transaction.atomic():
                return self.work(*self.arguments)
        except Exception as error:  # raised where it is awaited
            return error

    def tell(self, outcome: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(conclude, self.future, outcome)
        except RuntimeError:  # the event loop has closed: nothing waits any more
            pass


class Batches:
    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.thread = ProcessThread("device-sockets", self.work_for_ever)

    async def ask(self, work: Work, *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        self.thread.start()
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
    """For work without effects besides the rows: they are committed when this returns."""
    if connection.vendor == "sqlite":
        return await BATCHES.ask(work, *arguments)
    return await in_thread(work, *arguments)


def together(jobs: list[Job]) -> None:
    """One transaction with a savepoint for each job: a failing job does not affect the others."""
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
