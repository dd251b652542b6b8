"""The figures of the dashboard and the days of the calendar."""

from datetime import timedelta

import pytest
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule

from runs.models import Run, Schedule
from runs.models.figures import dashboard, earlier


@pytest.fixture
def version(agent, alice):
    return agent.publish(author=alice)


def test_figures_tell_what_is_unusual(alice, agent, version):
    now = timezone.now()
    for days, status in [(number, "succeeded") for number in range(1, 8)] * 3 + [(0, "failed")] * 6:
        at = now - timedelta(days=days)
        Run.objects.create(
            id=earlier.build_first_id(at).__class__(int=earlier.build_first_id(at).int + Run.objects.count() + 1),
            principal=alice,
            agent=agent,
            version=version,
            status=status,
            created_at=at,
            finished_at=at,
        )
    history = dashboard.history(Run.objects.visible_to(alice), now)
    assert history.total == 27
    assert history.today.failed == 6
    assert "100% of today's runs failed" in dashboard.anomalies(history.days)[0]


def test_the_days_before_today_are_counted_once_and_never_for_another(alice, charlie, agent, version):
    now = timezone.now().replace(hour=12)  # its day does not end in the next second
    first_id = earlier.build_first_id(now - timedelta(days=2))
    run = {"principal": alice, "agent": agent, "version": version, "created_at": now - timedelta(days=2)}
    Run.objects.create(id=first_id, **run)
    hers = Run.objects.visible_to(alice)
    first = dashboard.history(hers, now)
    Run._base_manager.filter(pk=first_id).update(status="failed")
    again = dashboard.history(hers, now + timedelta(seconds=1))
    assert (first.total, again.total, again.earlier_counted_at) == (1, 1, first.earlier_counted_at)
    assert dashboard.history(Run.objects.visible_to(charlie), now).total == 0
    earlier._kept.expire(earlier._kept.timer() + earlier._kept.ttl)  # as if that time had passed
    later = dashboard.history(hers, now)
    assert sum(day.failed for day in later.days) == 1


def test_days_are_those_of_the_viewers_zone(alice, signed_in, agent, version):
    """A due time at 23:30 UTC is tomorrow's in Tokyo."""
    row = CrontabSchedule.objects.create(minute="30", hour="23", day_of_month="9", month_of_year="1", timezone="UTC")
    Schedule.objects.create(owner=alice, name="late", agent=agent, text="Hi", crontab=row, next_due_at=timezone.now())
    browser = signed_in(alice)

    def day_of(zone):
        browser.cookies["zone"] = zone
        page = browser.get(f"/schedules/?month={timezone.now().year + 1}-01")
        [cell] = [cell for cell in page.context["calendar"]["cells"] if cell["entries"]]
        return cell["date"].day, page.context["zone"]

    assert day_of("UTC") == (9, "UTC")
    assert day_of("Asia/Tokyo") == (10, "Asia/Tokyo")
    assert day_of("../etc/passwd") == (9, "UTC")
