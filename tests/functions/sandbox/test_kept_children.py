"""Child processes that are kept for the calls of one run."""

from __future__ import annotations

import select
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from functions import sandbox


def test_a_kept_child_serves_one_run_with_fresh_globals(pool):
    source = "seen = []\ndef main(n):\n    seen.append(n)\n    return seen\n"
    for n in range(5):
        assert pool.execute(source, {"n": n}, reuse="run-1").result == [n]
    assert len(pool._kept._idle) == 1
    pool.execute(source, {"n": 1}, reuse="run-2")
    assert len(pool._kept._idle) == 2
    pool.release("run-1")
    assert [kept.key[0] for kept in pool._kept._idle] == ["run-2"]


def test_calls_side_by_side_each_keep_a_child(pool):
    source = "def main(n): return n\n"
    pool.execute(source, {"n": 0}, reuse="run-1")
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(lambda n: pool.execute(source, {"n": n}, reuse="run-1"), range(40)))
    assert [outcome.result for outcome in outcomes] == list(range(40))
    assert pool._servers.by_profile["core"].taken <= 4
    pool.release("run-1")
    assert not pool._kept._idle


# Far longer than a call takes on a busy machine; what exceeds it sleeps, so that it costs no processor.
SHORT = sandbox.Limits(timeout_s=4)
SLEEPER = "import time\ndef main(n):\n    while n: time.sleep(0.01)\n    return n\n"


def test_a_kept_child_that_fails_is_not_kept(pool):
    options = {"reuse": "r", "limits": SHORT, "allowed_imports": ["time"]}
    assert pool.execute(SLEEPER, {"n": 0}, **options).ok
    assert pool.execute(SLEEPER, {"n": 1}, **options).status == "timeout"
    assert not pool._kept._idle
    assert pool.execute(SLEEPER, {"n": 0}, **options).ok


def test_the_time_limit_holds_in_every_call_of_a_kept_child(pool):
    options = {"reuse": "r", "limits": SHORT, "allowed_imports": ["time"]}
    outcomes = [pool.execute(SLEEPER, {"n": n}, **options) for n in (0, 0, 0, 1)]
    assert [outcome.status for outcome in outcomes] == ["ok", "ok", "ok", "timeout"]
    assert outcomes[-1].error.line == 3  # the soft alarm, not the kill behind it
    assert pool._servers.by_profile["core"].taken == 1


def test_a_kept_child_forgets_answers_that_its_last_call_did_not_wait_for(pool):
    source = (
        "import asyncio\n"
        "async def main(ctx, n):\n"
        "    if n: return n\n"
        "    await asyncio.wait([ctx.call('slow'), ctx.call('fast')], return_when=asyncio.FIRST_COMPLETED)\n"
        "    return n\n"
    )
    gate = threading.Event()
    grants = {"fast": lambda arguments: 1, "slow": lambda arguments: gate.wait(60)}
    options = {"allowed_imports": ["asyncio"], "grants": grants, "reuse": "r"}
    assert pool.execute(source, {"n": 0}, **options).result == 0
    gate.set()
    assert [pool.execute(source, {"n": n}, **options).result for n in (1, 2)] == [1, 2]


def test_a_kept_child_leaves_no_object_of_one_call_to_the_next(pool):
    source = "class Loud:\n    def __del__(self): print('gone')\ndef main(n):\n    main.mine = Loud()\n    return n\n"
    outcomes = [pool.execute(source, {"n": n}, reuse="r") for n in range(3)]
    assert [(outcome.result, outcome.printed) for outcome in outcomes] == [(0, ""), (1, ""), (2, "")]
    assert pool._servers.by_profile["core"].taken == 1


def test_a_kept_child_serves_one_user_only(pool):
    for owner in ("alice", "bob"):
        assert pool.execute("def main(): return 1", reuse="r", owner=owner).ok
    assert {kept.key[:2] for kept in pool._kept._idle} == {("r", "alice"), ("r", "bob")}


def test_a_kept_child_that_died_while_idle_costs_nobody_a_call(pool):
    assert pool.execute("def main(): return 1", reuse="r").ok
    kept = pool._kept._idle[0]
    kept.child.kill()
    select.select([kept.child.pidfd], [], [], 60)
    assert pool.execute("def main(): return 1", reuse="r").result == 1


@pytest.mark.parametrize("how", ["its time is over", "it is cancelled"])
def test_a_kept_call_that_ends_while_it_waits_for_an_answer_is_not_made_twice(pool, how):
    paid, cancellation = [], sandbox.Cancellation()

    def pay(arguments):
        paid.append(arguments["n"])
        if arguments["n"] == 2:
            if how == "it is cancelled":
                cancellation.cancel()
            select.select([kept.child.pidfd], [], [], 60)

    options = {"grants": {"pay": pay}, "reuse": "r", "limits": SHORT}
    source = "def main(ctx, n): return ctx.call('pay', n=n)"
    assert pool.execute(source, {"n": 1}, **options).ok
    kept = pool._kept._idle[0]
    outcome = pool.execute(source, {"n": 2}, cancellation=cancellation, **options)
    assert outcome.status == ("cancelled" if how == "it is cancelled" else "timeout")
    assert paid == [1, 2]


def test_a_cancelled_kept_child_is_not_used_again(pool):
    cancellation = sandbox.Cancellation()
    cancellation.cancel()
    outcome = pool.execute("def main(): return 1", reuse="r", cancellation=cancellation)
    assert outcome.status == "cancelled"
    assert not pool._kept._idle
    assert pool.execute("def main(): return 1", reuse="r").ok


def test_a_closed_pool_keeps_nobody(pool):
    closed = threading.Event()
    source = "def main(ctx): return ctx.call('close')"
    grants = {"close": lambda arguments: pool.close() or closed.set()}
    pool.execute(source, reuse="r", grants=grants)
    assert closed.is_set()
    assert not pool._kept._idle
    assert pool.execute("def main(): return 1", reuse="r").ok


def test_modules_changed_by_a_kept_call_are_fresh_in_the_next(pool):
    source = "import math\ndef main(n):\n    old = math.pi\n    math.pi = n\n    return old\n"
    results = [pool.execute(source, {"n": n}, allowed_imports=["math"], reuse="r").result for n in (1, 2)]
    assert results[0] == results[1] == pytest.approx(3.14159, 0.001)
