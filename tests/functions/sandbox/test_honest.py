"""Ordinary functions that ask for a lot. None of them is an attack: too much raises an error that they can catch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from functions import sandbox


@pytest.fixture(scope="module")
def pool():
    pool = sandbox.Pool(spares=2)
    yield pool
    pool.close()


class Host:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines = []

    def log(self, message, level, fields):
        self.lines.append((message, fields))


ECHO = {"echo": lambda arguments: arguments}


def test_a_large_log_line_is_cut(pool):
    host = Host()
    source = "def main(ctx):\n    ctx.log('x' * 1_000_000, rows=['y' * 100] * 10_000)\n    return 1\n"
    assert pool.execute(source, host=host).result == 1
    ((message, fields),) = host.lines
    assert len(message) == 4000
    assert "left_out" in fields


def test_log_lines_beyond_the_limit_are_left_out(pool):
    host = Host()
    source = "def main(ctx):\n    for number in range(20_000):\n        ctx.log(number)\n    return 1\n"
    assert pool.execute(source, host=host).result == 1
    assert len(host.lines) == 2000


def test_sixty_calls_of_five_kilobytes_at_once(pool):
    source = (
        "import asyncio\nasync def main(ctx):\n"
        "    answers = await asyncio.gather(*[ctx.call('echo', text='x' * 5000) for _ in range(60)])\n"
        "    return sum(len(answer['text']) for answer in answers)\n"
    )
    outcome = pool.execute(source, grants=ECHO, allowed_imports=("asyncio",))
    assert outcome.result == 300_000, outcome


def test_calls_in_many_frames_are_served_once_each(pool):
    """A frame that came while the last thread was finishing was served a second time."""
    served = []
    grants = {"note": lambda arguments: served.append(arguments["n"])}
    source = (
        "import asyncio\nasync def main(ctx):\n"
        "    await asyncio.gather(*[ctx.call('note', n=n, text='x' * 100_000) for n in range(60)])\n"
    )
    for _ in range(20):
        served.clear()
        outcome = pool.execute(source, grants=grants, allowed_imports=("asyncio",))
        assert outcome.ok, outcome
        assert sorted(served) == list(range(60))


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("ctx.call('echo', value=deep)", "nested deeper than 64"),
        ("ctx.kv_set('a', deep)", "nested deeper than 64"),
        ("ctx.call('echo', text='x' * 300_000)", "kB of JSON; the maximum is 256 kB"),
        ("ctx.log('a', value=deep)", "nested deeper than 64"),
        ("ctx.call('echo', text='\\ud83d')", "an unpaired surrogate"),
    ],
)
def test_what_is_too_much_raises_inside_and_can_be_caught(pool, expression, says):
    source = (
        "def main(ctx):\n    deep = 1\n    for _ in range(80):\n        deep = [deep]\n"
        f"    try:\n        {expression}\n    except Exception as error:\n        return str(error)\n"
    )
    outcome = pool.execute(source, grants=ECHO, host=SimpleNamespace(kv_set=print, log=print))
    assert outcome.ok and says in outcome.result, outcome


def test_emoji_are_printed_and_returned(pool):
    outcome = pool.execute("def main():\n    print('😀' * 60_000)\n    return '😀' * 60_000\n")
    assert outcome.ok, outcome
    assert (outcome.printed[0], len(outcome.result)) == ("😀", 60_000)


def test_a_refused_call_can_be_caught_as_often_as_one_likes(pool):
    source = (
        "def main(ctx):\n    refused = 0\n    for _ in range(30_000):\n        try:\n            ctx.call('echo')\n"
        "        except CallFailed:\n            refused += 1\n    return refused\n"
    )
    assert pool.execute(source, grants=ECHO).result == 29_000


def test_an_answer_of_a_megabyte_reaches_the_function(pool):
    grants = {"large": lambda arguments: "x" * 1_000_000}
    assert pool.execute("def main(ctx): return len(ctx.call('large'))", grants=grants).result == 1_000_000
