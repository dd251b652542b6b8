"""One thread, a virtual clock and a seed. Tasks are greenlets of simulated workers; the seed decides who goes on when,
and which fault happens where.
"""

import os
import random
from collections.abc import Callable, Iterable
from contextvars import copy_context
from heapq import heappop, heappush
from typing import Any

from django.conf import settings
from django.db import connection
from greenlet import getcurrent, greenlet

from runs.queue.leases import Keeper
from runs.worker import dispatcher
from runs.worker.crash_quarantine import Suspects

from . import database

START = 1_900_000_000.0  # 2030-03-17, in seconds since 1970
SWITCHES = 0.15  # share of the statements outside of transactions before which somebody else may go on
# Each kind of fault with its weight: a worker lets others go on less often than it could die.
KINDS = {"killed": 1, "stopped": 5, "clock": 3, "wake-up": 3, "cancel": 5}
SAVEPOINTS = ("SAVEPOINT", "RELEASE", "ROLLBACK")  # their end belongs to the unwinding of a killed worker


class Killed(BaseException):
    """The worker of this task is dead. It may do nothing more; only its open transaction is rolled back."""


class Worker:
    """One process. A dead one is replaced by a new one with another name."""

    def __init__(self, number: int, life: int = 1) -> None:
        self.number, self.life = number, life
        self.name = f"worker{number}.{life}" if number else f"web.{life}"
        self.skew = 0.0  # seconds that its clock is fast
        self.is_alive = True
        self.stopped_until = 0.0
        self.tasks: set[Task] = set()
        self.work = dispatcher.Work()
        self.suspects = Suspects()
        self.keeper = Keeper()
        self.keeper.started_in = os.getpid()  # it gets no thread: the agenda renews the leases


class Task:
    """What one worker does in one greenlet."""

    def __init__(self, world: "World", worker: Worker, name: str, work: Callable[[], Any]) -> None:
        self.world, self.worker, self.name, self.work = world, worker, name, work
        self.greenlet = greenlet(self.run, parent=world.hub)
        self.greenlet.gr_context = copy_context()
        worker.tasks.add(self)

    def run(self) -> None:
        try:
            if self.worker.is_alive:
                self.work()
        except Killed:
            pass
        except Exception as error:
            self.world.problems.append(f"{self.worker.name} {self.name}: {type(error).__name__}: {error}")
        finally:
            self.worker.tasks.discard(self)

    def resume(self) -> None:
        self.world.task = self
        self.world.set_clock(self.world.now + self.worker.skew)
        self.greenlet.switch()
        self.world.task = None
        self.world.set_clock(self.world.now)


class World:
    def __init__(self, seed: int, set_clock: Callable[[float], Any], death: int | None = None) -> None:
        """`death`: no fault happens but one, the end of a worker at the chance of this number."""
        self.rng = random.Random(seed)
        self.now, self.set_clock = START, set_clock
        self.set_clock(START)
        self.hub = getcurrent()
        self.task: Task | None = None
        self.agenda: list[tuple[float, float, int, Worker | None, Callable[[], Any]]] = []
        self.entries = 0
        self.trace: list[str] = []
        self.problems: list[str] = []
        self.names: dict[str, str] = {}  # ids, which are not the same in every run of a seed → names, which are
        self.faults = self.rng.choice((1, 2, 3, 5))  # that may still happen
        self.rate = self.rng.choice((0.003, 0.01, 0.03, 0.1))
        # Some kinds of faults, not all: many of one kind find what one of each does not.
        self.kinds = {kind for kind in KINDS if self.rng.random() < 0.5} or {self.rng.choice(list(KINDS))}
        self.death, self.chances = death, 0
        self.workers = [Worker(number) for number in range(self.rng.randint(3, 4))]
        self.ever = list(self.workers)

    # -- the agenda -----------------------------------------------------------------------------------------------

    def after(self, seconds: float, action: Callable[[], Any], worker: Worker | None = None) -> None:
        self.entries += 1
        heappush(self.agenda, (self.now + seconds, self.rng.random(), self.entries, worker, action))

    def step(self) -> None:
        """The next entry of the agenda; that of a stopped worker comes when it goes on."""
        at, _, _, worker, action = heappop(self.agenda)
        self.now = max(self.now, at)
        self.set_clock(self.now)
        if worker is not None and worker.stopped_until > self.now:
            self.after(worker.stopped_until - self.now + self.rng.random(), action, worker)
        else:
            action()

    def start(self, worker: Worker, name: str, work: Callable[[], Any], delay: float = 0.0) -> Task:
        task = Task(self, worker, name, work)
        self.after(delay, task.resume, worker)
        return task

    def pause(self, seconds: float) -> None:
        """Let others go on. The worker may be stopped here, for longer than its leases last, or its clock be set."""
        task = self.task
        if task is None:
            return
        assert not connection.in_atomic_block, "a wait inside a transaction"
        if self.is_struck("stopped"):
            task.worker.stopped_until = self.now + self.rng.uniform(0.5, 4) * settings.LEASE_S
        if self.is_struck("clock set"):
            task.worker.skew += self.rng.choice((-60.0, -5.0, 5.0, 60.0))
        self.after(seconds, task.resume, task.worker)
        self.hub.switch()
        if not task.worker.is_alive:
            raise Killed

    def each(self, work: Callable[[Any], Any], items: Iterable[Any], _pool: Any = None) -> None:
        """In place of `waits.each`: at the same time."""
        assert self.task is not None
        worker, errors = self.task.worker, []

        def do(item: Any) -> None:
            try:
                work(item)
            except Exception as error:
                errors.append(error)

        siblings = [self.start(worker, "call", lambda item=item: do(item), self.rng.random()) for item in items]
        while worker.tasks.intersection(siblings):
            self.pause(0.2)
        if errors:
            raise errors[0]

    # -- faults ---------------------------------------------------------------------------------------------------

    def is_struck(self, what: str) -> bool:
        """Whether this fault happens here."""
        kind = what.split()[0]
        if not self.faults or self.death is not None or kind not in self.kinds:
            return False
        if self.rng.random() >= self.rate * KINDS[kind]:
            return False
        self.faults -= 1
        self.tell(f"FAULT: {what}")
        return True

    def risk(self, where: str) -> None:
        """The worker may die here. Its leases stay."""
        if self.task is not None and self.dies(f"killed {where}"):
            self.kill(self.task.worker)
            raise Killed

    def dies(self, what: str) -> bool:
        self.chances += 1
        if self.chances == self.death:
            self.tell(f"FAULT: {what}")
        return self.chances == self.death or self.is_struck(what)

    def kill(self, worker: Worker) -> None:
        worker.is_alive = False
        self.after(self.rng.uniform(0.5, 5), lambda: self.replace(worker))

    def replace(self, worker: Worker) -> None:
        self.workers[worker.number] = Worker(worker.number, worker.life + 1)
        self.ever.append(self.workers[worker.number])

    def statement(self, execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        """Around every database statement."""
        task, word = self.task, sql.split(None, 1)[0]
        if word == "BEGIN":
            sql = database.BEGIN
        if task is None or word in SAVEPOINTS:
            return execute(sql, parameters, many, context)
        if not task.worker.is_alive:
            raise Killed
        if not connection.in_atomic_block and self.rng.random() < SWITCHES:
            self.pause(0.02 * self.rng.random())
        if word == "SELECT":
            return execute(sql, parameters, many, context)
        self.risk(f"before {sql[:40]}")
        result = execute(sql, parameters, many, context)
        self.risk(f"after {sql[:40]}")
        return result

    # -- the trace ------------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        who = f"{self.task.worker.name} {self.task.name}" if self.task else "-"
        self.trace.append(f"{self.now - START:9.3f}  {who:24} {text}")

    def name_of(self, key: Any, kind: str = "run") -> str:
        return self.names.setdefault(str(key), f"{kind}{len(self.names) + 1}")
