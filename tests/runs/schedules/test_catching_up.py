"""What was missed, and what comes while an earlier run is at work: each pair of policies does what its words say."""

from datetime import UTC, datetime, timedelta

import pytest

from runs.models import Run, ScheduleOccurrence
from tests.schedules import HOUR, MINUTE, START, table

pytestmark = pytest.mark.django_db
LATE = START + 2 * HOUR + 30 * MINUTE  # three due times passed while nothing was there to start them

AT_ONCE = {
    ("skip", "skip"): ["missed", "missed", "missed"],
    ("skip", "queue"): ["missed", "missed", "missed"],
    ("skip", "cancel"): ["missed", "missed", "missed"],
    ("skip", "allow"): ["missed", "missed", "missed"],
    ("once", "skip"): ["missed", "missed", "started"],
    ("once", "queue"): ["missed", "missed", "started"],
    ("once", "cancel"): ["missed", "missed", "started"],
    ("once", "allow"): ["missed", "missed", "started"],
    ("all", "skip"): ["started", "skipped", "skipped"],
    ("all", "queue"): ["started", "waiting_overlap", "waiting_overlap"],
    ("all", "cancel"): ["cancelled", "cancelled", "started"],
    ("all", "allow"): ["started", "started", "started"],
}


@pytest.mark.parametrize(("missed", "overlap"), AT_ONCE)
def test_three_missed_due_times(make_schedule, tick, missed, overlap):
    schedule = make_schedule(missed_policy=missed, overlap_policy=overlap)
    tick(LATE, work=False)
    tick(LATE + MINUTE, work=False)
    assert [outcome for _, outcome in table(schedule)] == AT_ONCE[missed, overlap]
    started = AT_ONCE[missed, overlap].count("started") + AT_ONCE[missed, overlap].count("cancelled")
    assert Run.objects.count() == started


def test_a_queue_catches_up_with_everything_in_order(make_schedule, tick):
    schedule = make_schedule(missed_policy="all", overlap_policy="queue")
    for minute in range(8):
        tick(LATE + minute * MINUTE)
    assert [outcome for _, outcome in table(schedule)] == ["succeeded"] * 3
    due = [run.metadata["due_at"] for run in Run.objects.order_by("created_at")]
    assert due == [(START + hours * HOUR).isoformat() for hours in range(3)]


def test_a_new_due_time_does_not_overtake_those_that_wait(make_schedule, tick):
    schedule = make_schedule(missed_policy="all", overlap_policy="queue")
    tick(LATE, work=False)
    for run in Run.objects.all():
        run.change("cancelled")
    tick(START + 3 * HOUR, work=False)
    assert [outcome for _, outcome in table(schedule)] == ["cancelled", "started", "waiting_overlap", "waiting_overlap"]


def test_only_one_waits_unless_every_due_time_is_to_start(make_schedule, tick):
    schedule = make_schedule(missed_policy="once", overlap_policy="queue")
    for hour in range(4):
        tick(START + hour * HOUR, work=False)
    assert [outcome for _, outcome in table(schedule)] == ["started", "waiting_overlap", "skipped", "skipped"]


def test_what_waits_longer_than_the_window_is_missed(make_schedule, tick):
    schedule = make_schedule(missed_policy="all", overlap_policy="queue", missed_window_s=3 * 3600)
    tick(LATE, work=False)
    for run in Run.objects.all():
        run.change("cancelled")
    tick(START + 4.5 * HOUR, work=False)
    outcomes = [outcome for _, outcome in table(schedule)]
    assert outcomes[:3] == ["cancelled", "missed", "started"]
    assert ScheduleOccurrence.objects.get(outcome="missed").reason.endswith("outside the window")


def test_catching_up_over_the_end_of_summer_time_starts_each_hour_once(make_schedule, tick):
    """Berlin, 25 October 2026: 02:00 to 03:00 comes twice."""
    before = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
    schedule = make_schedule(missed_policy="all", overlap_policy="queue", zone="Europe/Berlin", now=before)
    for minute in range(12):
        tick(before + timedelta(hours=4) + minute * MINUTE)
    assert table(schedule) == [(f"25 0{hour}:00", "succeeded") for hour in range(4)]


def test_catching_up_over_the_start_of_summer_time_starts_a_daily_run_once(make_schedule, tick):
    """Berlin, 29 March 2026: 02:30 does not exist and is due at 03:00."""
    before = datetime(2026, 3, 27, 12, tzinfo=UTC)
    schedule = make_schedule(
        missed_policy="all", overlap_policy="queue", zone="Europe/Berlin", line="30 2 * * *", now=before,
        missed_window_s=7 * 86400,
    )  # fmt: skip
    for minute in range(10):
        tick(before + timedelta(days=3) + minute * MINUTE)
    assert table(schedule) == [("28 01:30", "succeeded"), ("29 01:00", "succeeded"), ("30 00:30", "succeeded")]
