"""The comparison of two revisions (benchmarks/turns.py)."""

import os

import pytest

from benchmarks import turns


def test_the_interval_leaves_out_as_many_ratios_as_chance_explains():
    ratios = [float(number) for number in range(1, 21)]
    assert turns.interval(ratios) == (6.0, 15.0)  # of 20 throws of a coin, 5 or fewer heads have a chance of 2.1 %


def test_too_few_pairs_have_no_interval():
    with pytest.raises(ValueError, match="at least 6"):
        turns.interval([1.0] * 5)


def test_the_cpu_of_a_process_is_counted_by_what_it_does():
    seconds = turns.seconds_by_part(os.getpid())
    assert sum(seconds.values()) > 0


def test_both_sides_take_turns_and_the_new_one_is_compared_with_the_old_one(monkeypatch):
    sides = [turns.Side("old", None, 1), turns.Side("new", None, 2)]
    order = []

    def take_turn(side, **_):
        order.append(side.name)
        side.cpu_ms.append(10.0 if side.name == "old" else 8.0)
        side.rates.append(100.0)
        return len(order) != 2  # an answer of the first pair is wrong

    monkeypatch.setattr(turns.Side, "take_turn", take_turn)
    ratios = turns.compare(*sides, pairs=6, callers=1, count=1, check=lambda answer: True)
    assert ratios == [0.8] * 6
    assert order[:6] == ["old", "new", "old", "new", "new", "old"]
