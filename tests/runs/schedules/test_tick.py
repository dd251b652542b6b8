"""Schedules tell the truth: the occurrence table is the witness."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core import mail
from django_celery_beat.models import ClockedSchedule, IntervalSchedule

from agents.exceptions import Invalid
from agents.tools import ToolResult
from runs.models import Run, Schedule, ScheduleOccurrence, WebhookDelivery
from runs.schedules import tick as schedules
from tests.schedules import DAY, HOUR, MINUTE, START, table

pytestmark = pytest.mark.django_db


def test_it_starts_on_time_once_and_tells_how_it_ended(make_schedule, tick):
    schedule = make_schedule()
    assert tick(START - timedelta(seconds=1))["claimed"] == 0
    tick(START)
    tick(START)
    run = Run.objects.get()
    assert (run.trigger, run.principal, run.status) == ("schedule", schedule.owner, "succeeded")
    tick(START + MINUTE)
    assert table(schedule) == [("01 08:00", "succeeded")]
    schedule.refresh_from_db()
    assert schedule.next_due_at == START + HOUR


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("skip", ["missed", "missed", "missed"]),
        ("once", ["missed", "missed", "started"]),
        ("all", ["missed", "started", "started"]),
    ],
)
def test_after_three_missed_occurrences_each_policy_holds(make_schedule, tick, policy, expected):
    schedule = make_schedule(missed_policy=policy, missed_window_s=100 * 60, overlap_policy="allow")
    tick(START + 2.5 * HOUR, work=False)
    assert [outcome for _, outcome in table(schedule)] == expected
    assert Run.objects.count() == expected.count("started")
    missed = ScheduleOccurrence.objects.filter(schedule=schedule, outcome="missed")
    assert all(row.reason for row in missed)


def test_a_week_without_a_beat_is_on_record(make_schedule, tick):
    schedule = make_schedule(missed_policy="once")
    tick(START + 7 * DAY + 10 * MINUTE)
    outcomes = [outcome for _, outcome in table(schedule)]
    assert outcomes.count("missed") == 7 * 24 and outcomes[-1] == "started"
    schedule.refresh_from_db()
    assert schedule.next_due_at == START + 7 * DAY + HOUR


def test_a_long_absence_of_a_busy_schedule_is_summed_up(make_schedule, tick):
    schedule = make_schedule(line="* * * * *", missed_policy="skip")
    tick(START + 7 * DAY + timedelta(seconds=30))
    rows = ScheduleOccurrence.objects.filter(schedule=schedule)
    assert rows.count() == 1000
    assert sum(rows.values_list("count", flat=True)) == 7 * 24 * 60 + 1


def test_a_clock_set_back_starts_nothing_twice(make_schedule, tick):
    schedule = make_schedule()
    tick(START)
    tick(START - 30 * MINUTE)
    tick(START)
    assert table(schedule) == [("01 08:00", "succeeded")]
    tick(START + HOUR)
    assert len(table(schedule)) == 2


@pytest.mark.parametrize(
    ("line", "zone", "now", "due"),
    [
        ("30 2 * * *", "Europe/Berlin", datetime(2026, 3, 28, 12, tzinfo=UTC), ["29 01:00", "30 00:30"]),
        ("30 2 * * *", "Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC), ["25 00:30", "26 01:30"]),
        ("0 9 29 2 *", "UTC", datetime(2027, 3, 1, tzinfo=UTC), ["29 09:00"]),
    ],
)
def test_gap_fold_and_leap_day_are_due_once(make_schedule, tick, line, zone, now, due):
    schedule = make_schedule(line=line, zone=zone, now=now)
    end = now + (2 * DAY if len(due) == 2 else 366 * DAY)
    while schedule.next_due_at <= end:
        tick(schedule.next_due_at)
        schedule.refresh_from_db()
    assert [when for when, _ in table(schedule)] == due


@pytest.mark.parametrize(
    ("policy", "outcomes", "runs"),
    [
        ("skip", ["started", "skipped", "skipped"], ["queued"]),
        ("queue", ["started", "waiting_overlap", "skipped"], ["queued"]),
        ("allow", ["started", "started", "started"], ["queued", "queued", "queued"]),
        ("cancel", ["cancelled", "cancelled", "started"], ["cancelled", "cancelled", "queued"]),
    ],
)
def test_with_the_worker_away_over_three_occurrences_each_overlap_policy_holds(
    make_schedule, tick, policy, outcomes, runs
):
    schedule = make_schedule(overlap_policy=policy)
    for hour in range(3):
        tick(START + hour * HOUR, work=False)
    tick(START + 2 * HOUR + MINUTE, work=False)
    assert [outcome for _, outcome in table(schedule)] == outcomes
    assert [run.status for run in Run.objects.order_by("id")] == runs
    skipped = ScheduleOccurrence.objects.filter(outcome="skipped")
    assert all("was still in progress" in row.reason for row in skipped)


def test_what_waited_for_the_earlier_run_starts_when_it_has_ended(make_schedule, tick):
    schedule = make_schedule(overlap_policy="queue")
    tick(START, work=False)
    tick(START + HOUR)  # the first run ends after this look
    tick(START + HOUR + MINUTE)
    tick(START + HOUR + 2 * MINUTE)
    assert table(schedule) == [("01 08:00", "succeeded"), ("01 09:00", "succeeded")]


def test_an_end_date_ends_it(make_schedule, tick):
    schedule = make_schedule(ends_at=START + HOUR)
    for hour in range(4):
        tick(START + hour * HOUR)
    schedule.refresh_from_db()
    assert schedule.next_due_at is None
    assert [when for when, _ in table(schedule)] == ["01 08:00", "01 09:00"]


def test_one_moment_and_an_interval_are_timings_too(make_schedule, tick, alice):
    clocked = ClockedSchedule.objects.create(clocked_time=START + 5 * MINUTE)
    once = make_schedule("once", crontab=None, clocked=clocked)
    interval = IntervalSchedule.objects.create(every=10, period="minutes")
    often = make_schedule("often", crontab=None, interval=interval, starts_at=START, overlap_policy="allow")
    for minutes in range(0, 25, 5):
        tick(START + minutes * MINUTE)
    assert table(once) == [("01 08:05", "succeeded")]
    assert [when for when, _ in table(often)] == ["01 08:00", "01 08:10", "01 08:20"]
    once.refresh_from_db()
    assert once.next_due_at is None


def test_jitter_puts_the_start_off(make_schedule, tick):
    schedule = make_schedule(jitter_s=600)
    tick(START)
    row = ScheduleOccurrence.objects.get()
    assert START < row.start_at < START + 10 * MINUTE
    assert row.outcome == "due"
    tick(row.start_at)
    assert Run.objects.count() == 1
    assert schedule.occurrences.count() == 1


def test_it_pauses_after_failures_in_a_row_and_tells_its_owner(make_schedule, tick, alice):
    from runs.models import Webhook

    Webhook.objects.create(owner=alice, url="https://example.com/hook", events=["schedule.paused"])
    schedule = make_schedule(pause_after_failures=2, notify_email="alice@example.com")
    schedule.agent.enabled = False
    schedule.agent.save()
    for hour in range(4):
        tick(START + hour * HOUR)
    schedule.refresh_from_db()
    assert not schedule.enabled and schedule.failures == 2
    assert "2 failures in a row" in schedule.paused_reason and "switched off" in schedule.paused_reason
    assert [outcome for _, outcome in table(schedule)] == ["refused", "refused"]
    assert "It is paused" in schedules.why_not(schedule)
    assert [message.to for message in mail.outbox] == [["alice@example.com"]]
    assert [delivery.type for delivery in WebhookDelivery.objects.all()] == ["schedule.paused"]


def test_a_success_ends_the_row_of_failures(make_schedule, tick):
    schedule = make_schedule()
    Schedule.objects.update(failures=3)
    tick(START)
    tick(START + MINUTE)
    schedule.refresh_from_db()
    assert schedule.failures == 0


def test_run_now_stands_beside_the_due_times(make_schedule, worker, alice):
    schedule = make_schedule()
    with worker.capture(execute=True):
        row = schedules.run_now(schedule, by=alice)
    assert (row.outcome, row.is_manual) == ("started", True)
    schedule.refresh_from_db()
    assert schedule.next_due_at == START


def test_after_a_pause_it_goes_on_with_what_is_due_next(make_schedule, tick, time_machine):
    schedule = make_schedule()
    schedules.set_enabled(schedule, False, reason="holidays")
    tick(START + 5 * HOUR)
    assert table(schedule) == []
    time_machine.move_to(START + 5 * HOUR + MINUTE, tick=False)
    schedules.set_enabled(schedule, True)
    assert schedule.next_due_at == START + 6 * HOUR


def test_a_chain_is_scheduled_like_an_agent(make_schedule, make_chain, tick, functions):
    chain = make_chain({"key": "a", "tool": "one", "input": {"x": "input.x"}})
    schedule = make_schedule(agent=None, chain=chain, input={"x": 1})
    tick(START)
    tick(START + MINUTE)
    assert table(schedule) == [("01 08:00", "succeeded")]
    assert functions.asked[0][1] == {"x": 1}


def test_a_chain_is_told_when_its_last_run_began_that_did_all_its_work(make_schedule, make_chain, tick, functions):
    """A run that failed or ended in part leaves it, so that what it left out comes again."""
    asks = {"type": "object", "properties": {"numbers": {"type": "array"}, "last_run_at": {"type": ["string", "null"]}}}
    each = {"key": "each", "tool": "one", "for_each": "input.numbers", "input": {"n": "item"}, "on_error": "continue"}
    chain = make_chain({"key": "gate", "tool": "gate"}, {**each, "needs": ["gate"]}, input_schema=asks)
    make_schedule(agent=None, chain=chain, input={"numbers": [1, 2]})
    good, bad = ToolResult(ok=True, value=1), ToolResult.failed("broken", "it broke")
    for hour, answers in enumerate([[good, good, good], [bad], [good, good, bad], [good, good, good]]):
        functions.answers += answers
        tick(START + hour * HOUR)
    tick(START + 3 * HOUR + MINUTE)
    runs = list(Run.objects.filter(trigger="schedule").order_by("created_at"))
    assert [run.status for run in runs] == ["succeeded", "failed", "partial", "succeeded"]
    first = runs[0].created_at.isoformat()
    assert [run.input.get("last_run_at") for run in runs] == [None, first, first, first]


def test_a_chain_that_does_not_ask_is_not_told(make_schedule, make_chain, tick, functions):
    make_schedule(agent=None, chain=make_chain({"key": "a", "tool": "one"}), input={"x": 1})
    for hour in range(2):
        tick(START + hour * HOUR)
    assert [run.input for run in Run.objects.filter(trigger="schedule")] == [{"x": 1}, {"x": 1}]


def test_a_target_that_is_no_longer_shared_is_refused(make_schedule, tick, bob, charlie):
    schedule = make_schedule()
    Schedule.objects.update(owner=charlie)
    tick(START)
    row = ScheduleOccurrence.objects.get()
    assert row.outcome == "refused" and "can no longer be used" in row.reason
    assert schedule.occurrences.count() == 1


def test_what_can_never_be_due_is_refused(make_schedule):
    for line in ("0 0 30 2 *", "99 * * * *"):
        with pytest.raises(Invalid):
            make_schedule(line=line)


def test_the_preview_shows_the_next_ten(make_schedule):
    found = schedules.preview_due_times(make_schedule(), now=START)
    assert found == [START + (hour + 1) * HOUR for hour in range(10)]
