"""Database work of many device sockets.

`in_batch` is for work that only reads and writes rows: on SQLite, with its single writer,
everything that waits shares one transaction. Otherwise five hundred reconnecting devices would
queue for the writer.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from django.db import DatabaseError, connection, transaction

from plumbing.threads import ProcessThread, Work, in_thread, run_with_connection

Item = TypeVar("Item")


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


class Batches(Generic[Item]):
    """Hands what arrived during the last batch to `write`, at most `most` items, on a thread of its own.

    `put` is called on the event loop.
    """

    def __init__(self, name: str, write: Callable[[list[Item]], None], most: int) -> None:
        self.write, self.most = write, most
        self.items: SimpleQueue[Item] = SimpleQueue()
        self.thread = ProcessThread(name, self.work_for_ever)

    def put(self, item: Item) -> None:
        self.thread.start()
        self.items.put(item)

    def work_for_ever(self) -> None:
        while True:
            batch = [self.items.get()]
            while len(batch) < self.most and not self.items.empty():
                batch.append(self.items.get())
            self.write(batch)


async def in_batch(work: Work, *arguments: Any) -> Any:
    """For work without effects besides the rows: they are committed when this returns."""
    if connection.vendor != "sqlite":
        return await in_thread(work, *arguments)
    loop = asyncio.get_running_loop()
    job = Job(work, arguments, loop, loop.create_future())
    JOBS.put(job)
    return await job.future


def do_together(batch: list[Job]) -> None:
    jobs = [job for job in batch if not job.future.cancelled()]
    run_with_connection(together, jobs)


JOBS = Batches("device-sockets", do_together, 32)


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
