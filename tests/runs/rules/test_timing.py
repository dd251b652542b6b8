"""When a schedule is due, told in the local time of its zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab_parser
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.rules.timing import Interval, Once, TimingError, come_due, field, next_due, read_line, upcoming


def local(text, zone):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def shown(moments, zone):
    return [moment.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M%z")[:-2] for moment in moments]


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("0 9 * * 1-5", "Europe/Berlin", "2026-11-20T09:00", ["2026-11-23 09:00+01", "2026-11-24 09:00+01"]),
        ("*/20 8 * * *", "UTC", "2026-01-01T08:05", ["2026-01-01 08:20+00", "2026-01-01 08:40+00", "2026-01-02 08:00+00"]),  # noqa: E501
        ("0 0 29 2 *", "UTC", "2096-02-29T00:00", ["2104-02-29 00:00+00"]),
        ("0 0 29 2 *", "UTC", "2025-01-01T00:00", ["2028-02-29 00:00+00", "2032-02-29 00:00+00"]),
        ("0 0 31 * *", "UTC", "2026-01-31T00:00", ["2026-03-31 00:00+00", "2026-05-31 00:00+00"]),
        # the gap: 2:30 does not exist on 29 March 2026 in Berlin, so it is due when the clock jumps to 3:00
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T03:00", ["2026-03-29 03:00+02", "2026-03-30 02:30+02"]),
        ("*/15 2 * * *", "Europe/Berlin", "2026-03-28T03:00", ["2026-03-29 03:00+02", "2026-03-30 02:00+02"]),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-28T04:00", ["2026-03-29 03:00+02", "2026-03-30 02:00+02"]),
        # the fold: 2:30 comes twice on 25 October 2026; a fixed hour counts once, every hour counts both
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T03:00", ["2026-10-25 02:30+02", "2026-10-26 02:30+01"]),
        ("30 * * * *", "Europe/Berlin", "2026-10-25T01:00", ["2026-10-25 01:30+02", "2026-10-25 02:30+02", "2026-10-25 02:30+01", "2026-10-25 03:30+01"]),  # noqa: E501
        # half an hour of summer time, midnight jumps, two hours at once, a whole day left out
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T03:00", ["2026-10-04 02:30+11", "2026-10-05 02:15+11"]),
        ("30 0 * * *", "America/Santiago", "2026-09-05T12:00", ["2026-09-06 01:00-03", "2026-09-07 00:30-03"]),
        ("30 2 * * *", "Antarctica/Troll", "2026-03-28T03:00", ["2026-03-29 03:00+02", "2026-03-30 02:30+02"]),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T13:00", ["2011-12-31 00:00+14", "2011-12-31 12:00+14"]),
    ],
)  # fmt: skip
def test_a_crontab_follows_the_clock_on_the_wall(line, zone, after, expected):
    assert shown(upcoming(read_line(line, zone), local(after, zone), len(expected)), zone) == expected


def test_the_thirtieth_of_february_never_comes():
    assert next_due(read_line("0 0 30 2 *"), datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("line", "zone", "word"),
    [
        ("0 9 * *", "UTC", "five fields"),
        ("61 9 * * *", "UTC", "minute"),
        ("0 25 * * *", "UTC", "hour"),
        ("0 0 32 * *", "UTC", "day of month"),
        ("0 0 0 * *", "UTC", "day of month"),
        ("0 0 * 13 *", "UTC", "month"),
        ("0 0 * * 8", "UTC", "day of week"),
        ("*/0 * * * *", "UTC", "minute"),
        ("x * * * *", "UTC", "minute"),
        ("5-1-2 * * * *", "UTC", "minute"),
        ("0 9 * * *", "Mars/Olympus", "time zone"),
        ("0 9 * * *", "../etc/passwd", "time zone"),
        ("0 9 * * *", "", "time zone"),
    ],
)
def test_an_impossible_crontab_or_zone_is_named(line, zone, word):
    with pytest.raises(TimingError, match=word):
        read_line(line, zone)


PARTS = st.one_of(
    st.sampled_from(["*", "*/7", "*/20"]),
    st.integers(1, 6).map(str),
    st.builds("{}-{}".format, st.integers(1, 6), st.integers(1, 6)),
    st.builds("{}-{}/{}".format, st.integers(1, 6), st.integers(1, 6), st.integers(1, 5)),
)


@pytest.mark.parametrize(("size", "lowest"), [(60, 0), (24, 0), (31, 1), (12, 1), (7, 0)])
@given(st.lists(PARTS, min_size=1, max_size=4).map(",".join))
@settings(max_examples=100, deadline=None)
def test_a_field_means_what_celery_reads_in_its_own_rows(size, lowest, text):
    assert field("minute", text, size, lowest) == set(crontab_parser(size, lowest).parse(text))


@pytest.mark.parametrize("text", ["fri-mon", "Mon", "sunday,saturday", "mon-fri/2"])
def test_days_of_the_week_have_names(text):
    assert field("day of week", text, 7) == set(crontab_parser(7).parse(text))


def test_an_interval_counts_real_seconds_from_its_anchor():
    anchor = datetime(2026, 1, 1, tzinfo=UTC)
    hourly = Interval(3600, anchor)
    assert upcoming(hourly, anchor - timedelta(days=3), 2) == [anchor, anchor + timedelta(hours=1)]
    assert next_due(hourly, anchor) == anchor + timedelta(hours=1)
    assert next_due(hourly, anchor + timedelta(minutes=150)) == anchor + timedelta(hours=3)


def test_once_is_due_once():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert next_due(Once(at), at - timedelta(seconds=1)) == at
    assert next_due(Once(at), at) is None


def test_what_came_due_during_an_absence_is_listed_up_to_a_limit_and_counted_beyond():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    now = start + timedelta(days=7, seconds=30)
    for timing in (read_line("* * * * *"), Interval(60, start)):
        found = come_due(timing, start, now)
        assert len(found.due) == 1000
        assert len(found.due) + found.older == 7 * 24 * 60 + 1
        assert found.due[-1] == start + timedelta(days=7)
        assert found.following == start + timedelta(days=7, minutes=1)


def test_nothing_is_due_past_the_end():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = come_due(Interval(60, start), start, start + timedelta(hours=1), end=start + timedelta(seconds=90))
    assert found.due == [start, start + timedelta(minutes=1)]
    assert found.following is None


@settings(max_examples=60, deadline=None)
@given(
    minute=st.integers(0, 59), hour=st.integers(0, 23), zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),  # noqa: E501
    start=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
)  # fmt: skip
def test_a_daily_crontab_is_due_once_every_local_day(minute, hour, zone, start):
    found = upcoming(read_line(f"{minute} {hour} * * *", zone), start.replace(tzinfo=UTC), 400)
    assert found == sorted(set(found))
    days = [moment.astimezone(ZoneInfo(zone)).date() for moment in found]
    assert days == [days[0] + timedelta(days=place) for place in range(400)]
