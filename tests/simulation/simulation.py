"""Runs a seed: the real engine between a simulated carrier, clock, model and outside."""

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import redis
import time_machine
from django.db import connection

from agents.http.room import ROOMS
from agents.models.agent import parse_spec
from plumbing import clock, waits
from plumbing.broker import broadcast
from plumbing.statements import Select
from registry import factory, toolsets
from registry.agents import LiveAgent
from registry.llm import llms
from runs.chains import slices
from runs.models import Run
from runs.queue import budgets, carriers, claims, fair_queue, leases, workers
from runs.worker import recovery, runner

from . import database, mutations
from .cast import Cast, set_up
from .invariants import violations
from .world import START, World

PERIOD_S = 8.0  # between ticks
LONGEST_S = 7200.0  # virtual seconds until what has not ended counts as stuck
ROOM = 2  # pieces of work that one worker does at once


@dataclass
class Outcome:
    seed: int
    death: int | None
    chances: int  # moments at which a worker could have died
    violations: list[str]
    trace: list[str]


class Simulation:
    """One per process. Every seed begins with the same rows."""

    def __init__(self, without: str = "") -> None:
        self.without = mutations.MUTATIONS[without] if without else lambda _: nullcontext()
        set_up()
        database.keep()
        gc.freeze()

    def run(self, seed: int, death: int | None = None) -> Outcome:
        database.rewind()
        forget()
        random.seed(seed)
        with time_machine.travel(START, tick=False) as traveller:
            world = World(seed, traveller.move_to, death)
            cast = Cast(world)
            carrier = Carrier(world)
            with simulated(world, cast, carrier), self.without(cast):
                Stage(world, cast, carrier).play()
            return Outcome(seed, death, world.chances, list(violations(cast)), world.trace)


def forget() -> None:
    """What this process remembers of the last seed: it would ask the database less often."""
    for remembering in (parse_spec, factory.tool_spec, factory.share_provider, llms.make_model, slices.get_step_crew):
        remembering.cache_clear()
    factory._live.clear()
    ROOMS.holders.clear()
    workers._reported = None


class Stage:
    """What happens by itself: the person acts, a worker ticks, leases are renewed."""

    def __init__(self, world: World, cast: Cast, carrier: "Carrier") -> None:
        self.world, self.cast, self.carrier = world, cast, carrier

    def play(self) -> None:
        self.every(PERIOD_S, self.tick)
        self.every(6.0, self.act)
        self.every(6.0, self.look)
        self.every(10.0, self.renew)
        self.act()
        while not self.is_quiet() and self.world.now < START + LONGEST_S:
            self.world.step()
        self.end()

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        def again() -> None:
            action()
            self.world.after(seconds * self.world.rng.uniform(0.8, 1.2), again)

        self.world.after(seconds * self.world.rng.random(), again)

    def tick(self) -> None:
        worker = self.world.rng.choice(self.world.workers[1:])
        if worker.is_alive:
            self.world.start(worker, "tick", self.tick_once)

    def tick_once(self) -> None:
        known = -1 if LIVE.first() else Run.objects.count()
        recovery.tick_recovery()
        self.settled = known

    def look(self) -> None:
        self.world.start(self.world.rng.choice(self.world.workers[1:]), "look", self.carrier.look)

    def act(self) -> None:
        if self.world.workers[0].is_alive:
            self.world.start(self.world.workers[0], "person", self.cast.act)

    def renew(self) -> None:
        for worker in self.world.workers:
            if worker.is_alive and worker.keeper.leases:
                self.world.start(worker, "leases", worker.keeper.renew)

    settled = -1  # how many runs there were, all ended, before the last whole tick

    def is_quiet(self) -> bool:
        if self.settled < 0 or self.cast.messages or any(worker.tasks for worker in self.world.workers):
            return False
        return self.settled == Run.objects.count()

    def end(self) -> None:
        """What still works when time is up is killed, so that nothing of it reaches the next seed."""
        for worker in self.world.ever:
            worker.is_alive = False
            for task in list(worker.tasks):
                task.resume()


LIVE = Select(lambda _: Run.objects.live().order_by().values_list("pk")[:1])


class Carrier:
    """`runs.queue.carriers.Carrier` in memory. Wake-ups may be lost, come twice and come late."""

    wakes_one = True

    def __init__(self, world: World) -> None:
        self.world = world

    def ring(self, pool: str) -> bool:
        self.world.risk("before a wake-up")
        times = 0 if self.world.is_struck("wake-up lost") else 2 if self.world.is_struck("wake-up doubled") else 1
        for _ in range(times):
            self.bring(pool)
        return True

    def bring(self, pool: str) -> None:
        self.world.after(self.world.rng.random() * 0.2, lambda: self.deliver(pool))

    def deliver(self, pool: str) -> None:
        worker = self.world.rng.choice(self.world.workers[1:])
        if worker.is_alive and len(worker.tasks) < ROOM:
            self.world.start(worker, "work", lambda: worker.work.do(pool, lambda: self.bring(pool)))
        else:
            self.world.after(0.5, lambda: self.deliver(pool))

    def look(self) -> None:
        """What workers do by themselves now and then."""

        for pool in fair_queue.waiting_pools(["default"]):
            self.bring(pool)


@contextmanager
def simulated(world: World, cast: Cast, carrier: Carrier) -> Iterator[None]:
    """The seams of the engine, in the hands of the seed."""

    def here() -> Any:
        return (world.task.worker if world.task else world.workers[0]).keeper

    keeper, watch = Current(here), SimpleNamespace(monotonic=lambda: world.now)
    database_now = lambda: datetime.fromtimestamp(world.now, UTC)  # noqa: E731
    name = lambda: world.task.worker.name if world.task else "nobody"  # noqa: E731

    def publish(channel: bytes, message: Any) -> bool:
        if channel == leases.CANCELS and not world.is_struck("cancel lost"):
            for worker in world.workers:
                world.after(world.rng.random(), lambda worker=worker: worker.keeper.hear(message), worker)
        return True

    changes: list[tuple[Any, str, Any]] = [
        (leases, "KEEPER", keeper), (runner, "KEEPER", keeper), (claims, "KEEPER", keeper),
        (leases, "socket", SimpleNamespace(gethostname=name)), (claims, "time", watch), (budgets, "time", watch), (slices, "time", watch),
        (clock, "now", database_now), (clock, "read_steady_seconds", watch.monotonic), (clock.Reading, "last", (database_now(), world.now)), (waits, "each", world.each), (waits, "sleep_until", world.pause),
        (broadcast, "publish_message", publish), (broadcast, "publish_many", lambda _: True),
        (broadcast, "publish_unconfirmed", lambda _: None), (broadcast, "server_connection", Away),
        (carriers, "current", lambda: carrier), (runner, "SUSPECTS", Current(lambda: world.task.worker.suspects)),
        (runner, "carry_out", told_of(world, runner.carry_out)),
        (LiveAgent, "reply", lambda live, messages, **question: cast.reply(live, messages, **question)),
    ]  # fmt: skip
    with ExitStack() as stack:
        for target, attribute, value in changes:
            stack.enter_context(patch.object(target, attribute, value))
        answer = SimpleNamespace(call=lambda *given: cast.call_tool(*given))
        stack.enter_context(patch.dict(toolsets.TOOLSETS, {"function": answer}))
        stack.enter_context(connection.execute_wrapper(world.statement))
        connection.connection.create_function("STRFTIME", 3, lambda *given: strftime(world, *given))
        yield


def told_of(world: World, carry_out: Callable[[Any], None]) -> Callable[[Any], None]:
    def told(run: Any) -> None:
        world.task.name = world.name_of(run.pk)
        world.tell(f"takes it, attempt {run.attempt}")
        carry_out(run)
        world.tell("puts it down")

    return told


def strftime(world: World, layout: str, time: str, shift: str) -> str:
    """SQLite's function as `plumbing.clock.Now` calls it."""
    assert time == "NOW"
    moment = datetime.fromtimestamp(world.now, UTC) + timedelta(seconds=float(shift.split()[0]))
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"


class Current:
    """Whatever `find` returns at the moment."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self.__dict__["find"] = find

    def __getattr__(self, name: str) -> Any:
        return getattr(self.find(), name)


class Away:
    """A broker for broadcasts that is away: they only make things faster."""

    def ask(self, *commands: Any) -> Any:
        raise redis.ConnectionError
