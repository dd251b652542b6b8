"""A caller and its child share a core while they take turns, and never for longer."""

from __future__ import annotations

import os
import select
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
import pytest

from functions import sandbox

TURNS = "def main(ctx, n):\n    return [ctx.call('look') for _ in range(n)]\n"
HERE = os.sched_getaffinity(0)
needs_cores = pytest.mark.skipif(len(HERE) < 2, reason="there is one core")


@pytest.fixture
def pool():
    made = sandbox.Pool(spares=1)
    yield made
    made.close()


def processes_of(pool: sandbox.Pool) -> list[psutil.Process]:
    """Those of its fork servers, and all below them."""
    servers = [psutil.Process(server._process.pid) for server in list(pool._servers.by_profile.values())]
    return [one for server in servers for one in (server, *server.children(recursive=True))]


def is_held(process: psutil.Process) -> bool:
    """Whether it may run on one core alone."""
    with suppress(psutil.NoSuchProcess):
        return len(process.cpu_affinity()) == 1
    return False


@pytest.fixture
def held(pool):
    """`held()`: how many processes of the pool are held on a core; to be granted to functions too."""
    return lambda _=None: sum(map(is_held, processes_of(pool)))


@needs_cores
@pytest.mark.parametrize("reuse", [None, "run-1"])
def test_a_child_that_asks_its_host_is_held_on_the_host_s_core(pool, held, reuse):
    outcome = pool.execute(TURNS, {"n": 5}, grants={"look": held}, reuse=reuse)
    assert set(outcome.result[1:]) == {1}, outcome
    assert os.sched_getaffinity(0) == HERE


@needs_cores
def test_what_the_host_starts_meanwhile_may_run_anywhere(pool):
    """A thread inherits the cores of the one that starts it."""
    seen = []

    def look(_):
        thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
        seen.append(os.sched_getaffinity(0))

    assert pool.execute(TURNS, {"n": 5}, grants={"look": look}, reuse="run-1").ok
    assert seen == [HERE] * 10


@needs_cores
def test_a_child_that_works_for_longer_is_let_go(pool, held):
    source = "def main(ctx):\n    ctx.call('look')\n    n = 0\n    while True:\n        n += 1\n"
    working = threading.Thread(
        target=lambda: pool.execute(
            source, grants={"look": held}, reuse="run-1", limits=sandbox.Limits(timeout_s=1.5, cpu_s=5)
        )
    )
    working.start()
    until = time.monotonic() + 60
    seen = []
    while working.is_alive():
        assert time.monotonic() < until
        seen.append(held())
        time.sleep(0.05)
    assert seen.count(0) > len(seen) // 2, "held for the first moment at most"


@needs_cores
def test_children_of_several_callers_are_not_held(pool, held):
    together = threading.Barrier(2, timeout=60)

    def look(_):
        together.wait()
        found = held()
        together.wait()
        return found

    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(pool.execute, TURNS, {"n": 1}, grants={"look": look}, reuse="r") for _ in range(2)]
        first, second = (call.result() for call in calls)
    assert first.ok and second.ok
    assert min(first.result[0], second.result[0]) <= 1, "who comes second finds the other at work"


def test_where_the_kernel_refuses_it_calls_go_on_as_ever(pool, monkeypatch):
    def refuse(pid, cores):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    for reuse in (None, "run-1", "run-1"):
        assert pool.execute(TURNS, {"n": 3}, grants={"look": lambda _: 1}, reuse=reuse).result == [1, 1, 1]


def test_a_kept_child_that_died_is_not_looked_for_by_its_number(pool):
    source = "def main(n):\n    return n\n"
    assert pool.execute(source, {"n": 1}, reuse="run-1").ok
    kept = pool._kept._idle[0].child
    kept.kill()
    select.select([kept.pidfd], [], [], 60)
    assert pool.execute(source, {"n": 2}, reuse="run-1").result == 2
