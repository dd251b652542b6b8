"""Places for calls: their limit, the share of each owner, and calls that make calls."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from functions import sandbox
from functions.sandbox.slots import Slots
from tests.functions.sandbox.processes import wait_until


def test_calls_beyond_the_limit_wait_and_then_are_told_busy():
    pool = sandbox.Pool(spares=1, at_once=2)
    pool._queue_s = 1  # for a place only: the fork server may take longer
    outcomes, may_end = [], threading.Event()
    host = SimpleNamespace(kv_get=lambda key: may_end.wait(60) and 1)
    source = "def main(ctx):\n    return ctx.kv_get('hold')\n"
    pool.check(source)
    run = lambda: outcomes.append(pool.execute(source, host=host).status)  # noqa: E731
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(outcomes) == 2)  # the other two hold their places until then
    may_end.set()
    for thread in threads:
        thread.join()
    pool.close()
    assert sorted(outcomes) == ["busy", "busy", "ok", "ok"]


def test_one_owner_never_takes_every_place():
    pool = sandbox.Pool(spares=1, at_once=4, queue_s=60)
    may_end = threading.Event()
    host = SimpleNamespace(kv_get=lambda key: may_end.wait(60) and 1)
    source = "def main(ctx):\n    return ctx.kv_get('hold')\n"
    pool.check(source)
    greedy = []
    run = lambda: greedy.append(pool.execute(source, host=host, owner="alice").result)  # noqa: E731
    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(pool._slots._waiting) == 4)
    assert pool.execute("def main(): return 7", owner="bob").result == 7
    assert greedy == []
    may_end.set()
    for thread in threads:
        thread.join()
    pool.close()
    assert greedy == [1] * 6


def test_an_owner_with_a_full_share_is_refused_and_the_message_says_so():
    pool = sandbox.Pool(spares=1, at_once=2)
    pool._queue_s = 0.05  # for a place only: the fork server may take longer
    refusals = []

    def kv_get(key):
        refusals.append(pool.execute("def main(): return 1", owner="alice").error.message)

    host = SimpleNamespace(kv_get=kv_get)
    assert pool.execute("def main(ctx): ctx.kv_get('x')", host=host, owner="alice").status == "ok"
    pool.close()
    assert refusals == [
        "no slot was free within 0.05 s; calls in progress: 1, 1 of the same owner, who can have at most 1"
    ]


def test_a_function_that_calls_another_lends_it_its_place():
    pool = sandbox.Pool(spares=2, at_once=4, queue_s=60)
    inner = {"inner": lambda arguments: pool.execute("def main(): return 1", owner="alice").result}
    source = "def main(ctx): return ctx.call('inner')"
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(lambda _: pool.execute(source, grants=inner, owner="alice"), range(8)))
    pool.close()
    assert [outcome.result for outcome in outcomes] == [1] * 8


def test_calls_that_gather_calls_do_not_wait_for_each_others_threads():
    pool = sandbox.Pool(spares=2, at_once=8, queue_s=60)
    leaf = {"leaf": lambda arguments: 1}
    gather = (
        "import asyncio\nasync def main(ctx):\n"
        "    return sum(await asyncio.gather(*[ctx.call('{0}') for _ in range({1})]))\n"
    )

    def middle(arguments):
        return pool.execute(gather.format("leaf", 12), grants=leaf, allowed_imports=("asyncio",), owner="a").result

    grants = {"middle": middle}
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(
            threads.map(
                lambda _: pool.execute(
                    gather.format("middle", 12), grants=grants, allowed_imports=("asyncio",), owner="a"
                ),
                range(4),
            )
        )
    pool.close()
    assert [outcome.result for outcome in outcomes] == [144] * 4


def test_a_free_place_goes_to_the_owner_who_has_the_fewest():
    slots = Slots(2, 2)
    slots.take(0, "alice")
    slots.take(0, "alice")
    order = []

    def wait(owner):
        slots.take(60, owner)
        order.append(owner)

    threads = []
    for number, owner in enumerate(["alice", "alice", "bob"]):
        threads.append(threading.Thread(target=wait, args=(owner,)))
        threads[-1].start()
        wait_until(lambda number=number: len(slots._waiting) == number + 1)
    slots.give_back("alice")
    wait_until(lambda: len(order) == 1)
    assert order == ["bob"]
    for owner in ("alice", "bob"):
        slots.give_back(owner)
    for thread in threads:
        thread.join(60)
    assert order[1:] == ["alice", "alice"]


def test_the_queue_of_one_owner_is_bounded():
    slots = Slots(1, 1, queue=1)
    slots.take(0, "alice")
    waiting = threading.Thread(target=slots.take, args=(60, "alice"))
    waiting.start()
    wait_until(lambda: slots._waiting)
    with pytest.raises(sandbox.NoChild, match="are already waiting"):
        slots.take(10, "alice")
    slots.give_back("alice")
    waiting.join(60)


def test_compiling_has_places_of_its_own_and_an_owner_a_share_of_them():
    pool = sandbox.Pool(spares=1, at_once=2, queue_s=0.05)
    for _ in range(2):
        pool._readers.take(0, "alice")
    with pytest.raises(sandbox.NoChild, match="2 of the same owner, who can have at most 2"):
        pool.check("def main(): return 2", owner="alice")
    pool.close()
