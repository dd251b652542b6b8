"""Schedules for tests: made as they are needed, and a clock that is passed in."""

from datetime import UTC, datetime, timedelta

import pytest
from django_celery_beat.models import CrontabSchedule

from runs.models import Schedule, ScheduleOccurrence
from runs.schedules import tick as schedules

START = datetime(2026, 6, 1, 8, 0, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def make_schedule(alice, make_agent, worker):
    """Hourly from eight o'clock on, unless told otherwise."""
    agent = make_agent("clerk")

    def make(name="hourly", *, now=START - MINUTE, line="0 * * * *", zone="UTC", **fields):
        minute, hour, day, month, weekday = line.split()
        crontab = CrontabSchedule.objects.create(
            minute=minute, hour=hour, day_of_month=day, month_of_year=month, day_of_week=weekday, timezone=zone
        )
        fields = {
            "owner": alice,
            "agent": agent,
            "text": "Good morning",
            "crontab": crontab,
            "timezone": zone,
            **fields,
        }
        schedule = Schedule(name=name, **fields)
        schedules.plan_next(schedule, now)
        schedule.save()
        return schedule

    return make


@pytest.fixture
def tick(worker):
    """What is due at this time is started, and its runs are worked on."""

    def tick(now, *, work=True):
        with worker.capture(execute=True):
            outcome = schedules.tick_schedules(now)
        if work:
            worker.work(limit=500)
        return outcome

    return tick


def table(schedule):
    """[(due, outcome)] oldest first, due as hours and minutes."""
    rows = ScheduleOccurrence.objects.filter(schedule=schedule).order_by("due_at")
    return [(f"{row.due_at:%d %H:%M}", row.outcome) for row in rows]
