"""When a schedule is due: crontab, interval or a single time, in an IANA time zone. Pure; time is
passed in.

A crontab refers to local time. A time in the hour skipped by a change to summer time is due at the
first moment after the gap, once. A time in the hour that occurs twice is due the first time only,
unless the crontab names every hour: then both count. As in celery's rows, day of month **and** day
of week must both match. An interval counts real seconds from its anchor and ignores summer time.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from .crontab_text import read_words

# After 29 February 2096 the next one is eight years away.
LOOK_AHEAD_DAYS = 366 * 9
# *, */5, 1-5, 1-5/2, 7 or 7/5
PART = re.compile(r"(?:\*|(?P<first>\w+)-(?P<last>\w+)|(?P<single>\w+))(?:/(?P<step>\d{1,3}))?", re.ASCII)
SHAPE = re.compile(r"[\w*/,?#~-]+", re.ASCII)
NAMES = {
    7: ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"),
    12: (
        "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
        "november", "december",
    ),
}  # fmt: skip
# Among the days of a month.
LAST_DAY = 0
CALENDAR_ENDS = datetime(9999, 12, 30, tzinfo=UTC)
# Due times listed individually; after a longer absence the older ones are only counted.
MAX_DUE = 1000


class TimingError(ValueError):
    """The crontab, the interval or the zone is invalid; the message names the field."""


@dataclass(frozen=True, slots=True)
class Crontab:
    """The five fields as sets; `weekdays` count from Sunday = 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    # LAST_DAY: the last of the month.
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so many seconds from the anchor; the anchor itself is due."""

    seconds: float
    anchor: datetime


@dataclass(frozen=True, slots=True)
class Once:
    at: datetime


Timing = Crontab | Interval | Once


@lru_cache(maxsize=4096)
def read_crontab(minute: str, hour: str, day: str, month: str, weekday: str, zone: str = "UTC") -> Crontab:
    """Reads the five fields of a crontab. Raises TimingError naming the field."""
    # A crontab is refused for its zone now, not when it is due.
    zone_named(zone)
    return Crontab(
        minutes=tuple(sorted(field("minute", minute, 60))),
        hours=tuple(sorted(field("hour", hour, 24))),
        days=frozenset(field("day of month", day, 31, 1)),
        months=frozenset(field("month", month, 12, 1)),
        weekdays=frozenset(field("day of week", weekday, 7)),
        zone=zone,
    )


def read_line(line: str, zone: str = "UTC") -> Crontab:
    """`minute hour day-of-month month day-of-week` as in a crontab file, a nickname or words."""
    return read_crontab(*split_line(line), zone)


def split_line(line: str) -> list[str]:
    """The five fields of a line. Raises TimingError saying what to write instead."""
    parts = read_words(line).split()
    if len(parts) == 5:
        return parts
    first = parts[0].lower() if parts else ""
    if first.startswith(("tz=", "cron_tz=")):
        raise TimingError("A crontab names no time zone: leave it out, and set the schedule's time zone.")
    if first == "@reboot":
        raise TimingError("“@reboot” is not a time; write @hourly, @daily, @weekly, @monthly or @yearly.")
    if first.startswith("@"):
        raise TimingError(
            f"“{line[:40]}” is not known; write @hourly, @daily, @weekly, @monthly, @yearly or an interval."
        )
    if len(parts) in (6, 7) and all(SHAPE.fullmatch(part) for part in parts):
        raise TimingError("A crontab has no seconds and no year; write five fields: minute hour day month weekday.")
    raise TimingError(
        f"A crontab has five fields (minute hour day month weekday); “{line[:80]}” has {len(parts)}. Words such as "
        "“every weekday at 9” are understood too."
    )


def field(name: str, text: str, size: int, lowest: int = 0) -> set[int]:
    """The numbers that the field names: parts with commas in between. A range may go round: 22-2, fri-mon."""
    if text == "?" and name.startswith("day"):
        text = "*"
    # A longer text names nothing that a shorter one could not, and is refused as an empty part.
    parts = text.split(",") if len(text) <= 240 else [""]
    numbers: set[int] = set()
    for part in parts:
        if part.upper() == "L" and name == "day of month":
            numbers.add(LAST_DAY)
        else:
            numbers |= parse_timing_part(name, part, size, lowest)
    return numbers


def parse_timing_part(name: str, text: str, size: int, lowest: int) -> set[int]:
    """The numbers of a part without commas: *, */5, 1-5, 1-5/2, 7 or 7/5. Raises TimingError."""
    match = None if advice(text) else PART.fullmatch(text)
    # A step of 0 goes nowhere.
    if match is None or (match["step"] and int(match["step"]) == 0):
        raise TimingError(f"The {name} “{text[:40]}” is not valid.{advice(text)}")
    first, last, single, step_text = match.groups()
    step = int(step_text or 1)
    low = lowest
    high = lowest + size - 1
    is_whole_week = size == 7 and first == "0" and last == "7"
    if single:
        low = parse_timing_number(name, single, size, lowest)
        # 5/15: from the fifth on.
        if not step_text:
            high = low
    elif first and not is_whole_week:
        low = parse_timing_number(name, first, size, lowest)
        high = parse_timing_number(name, last, size, lowest)
    # A range from a higher to a lower number goes round the end.
    span = (high - low) % size
    return {(low - lowest + place) % size + lowest for place in range(0, span + 1, step)}


def advice(text: str) -> str:
    """What to write instead of signs of other dialects."""
    for pattern, sentence in ADVICE:
        if pattern.fullmatch(text):
            return f" {sentence}"
    return ""


ADVICE = (
    (re.compile(r"H([(/].*)?", re.IGNORECASE), "Write a number instead of H, and set the schedule's jitter_s."),
    (re.compile(r"\w+#\d"), "Write the weekday, and for its n-th in a month the days too: 8-14 is the second week."),
    (
        re.compile(r"(\d|sun|mon|tue|wed|thu|fri|sat)L|L-\d+", re.IGNORECASE),
        "Only L, the last day of the month, is understood.",
    ),
    (re.compile(r"\d+W|LW|W", re.IGNORECASE), "Write the days, and 1-5 as the day of week; both must match."),
    (re.compile(r"\w+~\w+"), "Write one number, and set the schedule's jitter_s."),
    (re.compile(r"\?"), "Write * instead."),
)


def parse_timing_number(name: str, text: str, size: int, lowest: int) -> int:
    """The number that a text of this field means: a number, or a name such as “mon”. Raises TimingError."""
    if size == 7 and text == "7":
        # Sunday.
        return 0
    for place, full_name in enumerate(NAMES.get(size, ())):
        if len(text) >= 3 and full_name.startswith(text.lower()):
            return place + lowest
    if text.isdecimal() and lowest <= int(text) < lowest + size:
        return int(text)
    shown = text[:40]
    highest = 7 if size == 7 else lowest + size - 1
    ends = f"{lowest} and {highest}"
    if size not in NAMES:
        raise TimingError(f"The {name} “{shown}” must lie between {ends}.")
    example = NAMES[size][1][:3]
    raise TimingError(f"The {name} “{shown}” must lie between {ends}, or be a name such as {example}.")


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """All names of zones; reading them opens hundreds of files."""
    return frozenset(available_timezones())


def zone_named(name: str) -> ZoneInfo:
    if name not in zone_names():
        raise TimingError(f"There is no time zone “{name}”; use an IANA name such as Europe/Berlin.")
    return ZoneInfo(name)


def next_due(timing: Timing, after: datetime) -> datetime | None:
    """The first due time after `after` (aware; the result is UTC), None if there is none."""
    return next(due_times(timing, after), None)


def upcoming(timing: Timing, after: datetime, count: int = 10, *, end: datetime | None = None) -> list[datetime]:
    """The next due times, at most `count` and none after `end`."""
    times = islice(due_times(timing, after), count)
    if end is None:
        return list(times)
    return [due for due in times if due <= end]


def due_times(timing: Timing, after: datetime) -> Iterator[datetime]:
    """All due times after this moment, in order and in UTC. They may never end."""
    after = after.astimezone(UTC)
    match timing:
        case Once(at):
            return iter([at.astimezone(UTC)] if at > after else [])
        case Interval():
            return every(timing, after)
        case Crontab():
            return of_crontab(timing, after)


def every(interval: Interval, after: datetime) -> Iterator[datetime]:
    """Due times of an interval. They are computed from the anchor, so that no error adds up."""
    anchor = interval.anchor.astimezone(UTC)
    step = timedelta(seconds=interval.seconds)
    passed_count = (after - anchor) // step + 1 if after >= anchor else 0
    due = anchor + passed_count * step
    while True:
        if due > after:
            yield due
        if due > CALENDAR_ENDS - step:
            return
        due += step


def of_crontab(crontab: Crontab, after: datetime) -> Iterator[datetime]:
    zone = zone_named(crontab.zone)
    local_date = after.astimezone(zone).date()
    # Begin a day earlier: a zone that skipped a day still finds its gap.
    first_day = local_date - timedelta(days=1)
    last = after
    for day in matching_days(crontab, first_day):
        for due in of_day(crontab, zone, day, last):
            # Two local times in one gap are the same moment.
            if due > last:
                last = due
                yield due


def matching_days(crontab: Crontab, first: date) -> Iterator[date]:
    """The days, from this one on, that the crontab names: month, day of month and weekday must all match."""
    day = first
    for _ in range(LOOK_AHEAD_DAYS):
        # Python counts from Monday, a crontab from Sunday.
        weekday = (day.weekday() + 1) % 7
        if day.month in crontab.months and weekday in crontab.weekdays and is_named(crontab, day):
            yield day
        day += timedelta(days=1)


def is_named(crontab: Crontab, day: date) -> bool:
    """Whether the day of month is one of the crontab's."""
    if day.day in crontab.days:
        return True
    if LAST_DAY not in crontab.days:
        return False
    next_day = day + timedelta(days=1)
    return next_day.day == 1


def of_day(crontab: Crontab, zone: ZoneInfo, day: date, after: datetime) -> Iterator[datetime]:
    """Due times of one local day in order."""
    start = datetime.combine(day, time(), zone)
    following = datetime.combine(day + timedelta(days=1), time(), zone)
    offset = start.utcoffset() or timedelta()
    is_even = offset == following.utcoffset() and not has_offset_change(zone, day, offset)
    if not is_even:
        yield from of_changing_day(crontab, zone, day)
        return
    # Without a change of the clocks, local time is UTC and a constant: that is ten times as fast.
    midnight = (start - offset).replace(tzinfo=UTC)
    yield from of_even_day(crontab, midnight, after)


def has_offset_change(zone: ZoneInfo, day: date, offset: timedelta) -> bool:
    """Whether clocks were changed and changed back within the day, which happened in some zones."""
    for hour in (4, 8, 12, 16, 20):
        moment = datetime.combine(day, time(hour), zone)
        if moment.utcoffset() != offset:
            return True
    return False


def of_even_day(crontab: Crontab, midnight: datetime, after: datetime) -> Iterator[datetime]:
    first_hour = 0
    if after > midnight:
        passed_s = (after - midnight).total_seconds()
        first_hour = int(passed_s // 3600)
    first_place = bisect_left(crontab.hours, first_hour)
    for hour in crontab.hours[first_place:]:
        for minute in crontab.minutes:
            yield midnight + timedelta(hours=hour, minutes=minute)


def of_changing_day(crontab: Crontab, zone: ZoneInfo, day: date) -> Iterator[datetime]:
    # A crontab that names every hour is due in both hours of the same name.
    names_every_hour = len(crontab.hours) == 24
    times: set[datetime] = set()
    for hour in crontab.hours:
        for minute in crontab.minutes:
            wall = datetime.combine(day, time(hour, minute))
            times |= moments(wall, zone, both=names_every_hour)
    yield from sorted(times)


def moments(wall: datetime, zone: ZoneInfo, *, both: bool) -> set[datetime]:
    """The moments at which local clocks show this time. In a gap: the first moment after it. In an hour that
    occurs twice: the first, or `both`.
    """
    first = wall.replace(tzinfo=zone, fold=0)
    second = wall.replace(tzinfo=zone, fold=1)
    first_offset = first.utcoffset() or timedelta()
    second_offset = second.utcoffset() or timedelta()
    # In a gap the offset grows: clocks jump forward.
    if first_offset < second_offset:
        return {end_of_gap(wall, zone)}
    if first_offset > second_offset and both:
        return {first.astimezone(UTC), second.astimezone(UTC)}
    return {first.astimezone(UTC)}


def read_in_zone(moment: datetime, zone: str) -> datetime:
    """The moment that is meant by a time without an offset: the first at which clocks of this zone
    show it, or the end of the gap that skips it. A moment with an offset is meant as it is.
    """
    if moment.tzinfo is not None:
        return moment
    return min(moments(moment, zone_named(zone), both=False))


def end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """The moment of the clock change, found by bisection between an instant before and one after it."""
    # Read with the later offset, the time lies before the jump; with the earlier offset, after it.
    low = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    high = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    offset = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        half_s = (high - low) // timedelta(seconds=2)
        middle = low + timedelta(seconds=half_s)
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True, slots=True)
class Missed:
    """Past due times: the listed ones, and the number of older ones."""

    due: list[datetime]
    older: int
    following: datetime | None


def come_due(timing: Timing, first: datetime, now: datetime, *, end: datetime | None = None) -> Missed:
    """All due times from `first` (which is one) to `now`, the newest MAX_DUE listed, and the next one."""
    until = min(now, end) if end else now
    if first > until:
        return Missed([], 0, not_after(first, end))
    if isinstance(timing, Interval):
        return of_interval(timing, first, until, end)
    due = [first]
    older_count = 0
    following = None
    for moment in due_times(timing, first):
        if moment > until:
            following = moment
            break
        due.append(moment)
        # Cut now and then, so that years of minutes do not fill the memory.
        if len(due) > 2 * MAX_DUE:
            older_count += len(due) - MAX_DUE
            due = due[-MAX_DUE:]
    older_count += max(0, len(due) - MAX_DUE)
    return Missed(due[-MAX_DUE:], older_count, not_after(following, end))


def not_after(moment: datetime | None, end: datetime | None) -> datetime | None:
    """The moment, or None if it comes after the end."""
    if moment and end and moment > end:
        return None
    return moment


def of_interval(interval: Interval, first: datetime, until: datetime, end: datetime | None) -> Missed:
    """The same for an interval, whose due times need not be counted one by one."""
    step = timedelta(seconds=interval.seconds)
    count = (until - first) // step + 1
    older_count = max(0, count - MAX_DUE)
    due = [first + place * step for place in range(older_count, count)]
    last = due[-1]
    following = last + step if last <= CALENDAR_ENDS - step else None
    return Missed(due, older_count, not_after(following, end))
