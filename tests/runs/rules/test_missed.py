"""Missed due times and overlaps, as tables."""

from datetime import UTC, datetime, timedelta

import pytest

from runs.rules.missed import add_jitter, on_overlap, settle_missed

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def ago(*minutes):
    return [NOW - timedelta(minutes=each) for each in minutes]


@pytest.mark.parametrize(
    ("policy", "due", "starts"),
    [
        ("skip", ago(0), [True]),
        ("skip", ago(180, 120, 60), [False, False, False]),
        ("skip", ago(120, 60, 0), [False, False, True]),
        ("once", ago(180, 120, 60), [False, False, True]),
        ("once", ago(120, 60, 0), [False, False, True]),
        ("once", ago(0.5), [True]),
        ("all", ago(180, 120, 60), [False, True, True]),
        ("all", ago(180, 60, 0), [False, True, True]),
    ],
)
def test_each_policy_decides_on_every_due_time(policy, due, starts):
    found = settle_missed(due, NOW, policy, window_s=150 * 60)
    assert [verdict.due_at for verdict in found] == due
    assert [verdict.starts for verdict in found] == starts
    assert all(verdict.reason for verdict in found if not verdict.starts)


@pytest.mark.parametrize(
    ("policy", "running", "waiting", "decision"),
    [
        ("skip", 0, 0, "start"), ("skip", 1, 0, "skip"),
        ("queue", 0, 0, "start"), ("queue", 1, 0, "wait"), ("queue", 1, 1, "skip"),
        ("cancel", 1, 0, "cancel"), ("allow", 3, 0, "start"),
    ],
)  # fmt: skip
def test_each_policy_decides_on_an_overlap(policy, running, waiting, decision):
    assert on_overlap(policy, running=running, waiting=waiting) == decision


def test_jitter_is_the_same_for_every_beat_and_spreads():
    spread = [add_jitter(NOW, 60, str(key)) - NOW for key in range(200)]
    assert spread == [add_jitter(NOW, 60, str(key)) - NOW for key in range(200)]
    assert min(spread) >= timedelta(0) and max(spread) < timedelta(seconds=60)
    assert max(spread) - min(spread) > timedelta(seconds=50)
    assert add_jitter(NOW, 0, "x") == NOW
