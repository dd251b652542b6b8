"""The tick: once a second, start what is due and record how started runs ended
(runs/schedules/occurrences.py).

Two ticks at once, or a clock that was set back, do no harm: each due time is
claimed in one transaction by advancing `next_due_at` and by a row that is unique for (schedule, due
time). The reason why a run was not started is stored in that row.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import DateTimeField
from django.utils.formats import date_format
from django.utils.translation import gettext

from agents.exceptions import Conflict, Invalid
from agents.models import SiteHold
from plumbing import clock
from plumbing.statements import Select, update_each
from plumbing.texts import translate
from runs.models import Schedule, ScheduleOccurrence
from runs.queue import timers
from runs.rules.missed import add_jitter, settle_missed
from runs.rules.timing import Missed, TimingError, come_due, next_due, upcoming

from . import occurrences, pending

Outcome = ScheduleOccurrence.Outcome
BATCH = 1000
# Schedules claimed in one transaction.
GROUP = 250


def tick_schedules(now: datetime | None = None) -> dict[str, int]:
    """One pass; safe to run concurrently. Returns how many of each."""
    now = now or clock.now()
    claimed = claim_due_schedules(now) if IS_DUE.first(now=now) else 0
    outcomes = {outcome for (outcome,) in OPEN.all()}
    settled = occurrences.settle_started() if Outcome.STARTED in outcomes else 0
    if Outcome.WAITING_DEVICE in outcomes:
        pending.release_waiting_occurrences()
    has_unstarted = bool(outcomes - {Outcome.STARTED})
    started = occurrences.start_open(now) if has_unstarted else 0
    return {"claimed": claimed, "started": started, "settled": settled}


# Usually nothing is due: two prepared statements find out before anything else happens.
IS_DUE = Select(lambda at: Schedule.objects.due(at.now).order_by().values_list("pk")[:1], now=DateTimeField())
OPEN = Select(
    lambda at: (
        ScheduleOccurrence.objects.filter(SiteHold.absent(), outcome__in=ScheduleOccurrence.OPEN)
        .order_by()
        .values_list("outcome")
        .distinct()
    )
)


# -- claiming


def claim_due_schedules(now: datetime) -> int:
    """Record the due times up to now of every schedule and advance them, a group per transaction."""
    claimed = 0
    for _ in range(BATCH // GROUP):
        schedules, rows = claim_group(now)
        claimed += rows
        if schedules < GROUP:
            break
    return claimed


@transaction.atomic
def claim_group(now: datetime) -> tuple[int, int]:
    """(schedules, due times): rows locked by another tick are left to it."""
    due = Schedule.objects.due(now).select_related("crontab", "interval", "clocked").order_by("next_due_at")
    group = list(due.select_for_update(skip_locked=True, of=("self",))[:GROUP])
    rows: list[ScheduleOccurrence] = []
    for schedule in group:
        rows += come_round(schedule, now)
    update_each([schedule for schedule in group if schedule.enabled], ("next_due_at", "last_due_at"))
    ScheduleOccurrence.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)
    return len(group), len(rows)


def come_round(schedule: Schedule, now: datetime) -> list[ScheduleOccurrence]:
    """Its due times up to now; the row in memory is advanced, or paused if its timing is invalid."""
    # Only schedules with a due time are selected.
    assert schedule.next_due_at is not None
    try:
        times = come_due(schedule.timing(), schedule.next_due_at, now, end=schedule.ends_at)
    except (TimingError, OverflowError) as error:
        schedule.enabled = False
        occurrences.pause_schedule(schedule, f"its timing is not valid: {error}")
        return []
    schedule.next_due_at = times.following
    if times.due:
        schedule.last_due_at = times.due[-1]
    return build_occurrences(schedule, times, now)


def build_occurrences(schedule: Schedule, times: Missed, now: datetime) -> list[ScheduleOccurrence]:
    rows: list[ScheduleOccurrence] = []
    for verdict in settle_missed(times.due, now, schedule.missed_policy, schedule.missed_window_s):
        due_at = verdict.due_at
        start_at = add_jitter(due_at, schedule.jitter_s, str(schedule.pk))
        row = ScheduleOccurrence(schedule=schedule, due_at=due_at, start_at=start_at, reason=verdict.reason)
        if not verdict.starts:
            row.outcome = Outcome.MISSED
            row.settled_at = now
        rows.append(row)
    # After a long time off, the earliest due times are counted, but have no rows.
    if times.older and rows:
        rows[0].count += times.older
        rows[0].reason = f"{rows[0].reason} (and {times.older} earlier due times)"
    return rows


# -- by hand


def plan_next(schedule: Schedule, now: datetime | None = None) -> None:
    """Set `next_due_at` of a new or changed schedule (not saved). Raises Invalid."""
    now = now or clock.near()
    try:
        after = beginning(schedule, now)
        due = next_due(schedule.timing(), after)
    except (TimingError, OverflowError) as error:
        raise Invalid(f"This is never due: {error}", code="invalid_timing", hint="See docs/howto/schedules.md.")
    if due and schedule.ends_at and due > schedule.ends_at:
        due = None
    schedule.next_due_at = due
    timers.expect(due)
    if due is None and schedule.enabled:
        raise Invalid("This schedule would never be due.", code="never_due", hint="Check the date and the end.")


def beginning(schedule: Schedule, now: datetime) -> datetime:
    """The next due time is searched for after this moment."""
    if schedule.starts_at is None or schedule.starts_at <= now:
        return now
    # The start itself is a due time.
    return schedule.starts_at - timedelta(microseconds=1)


def preview_due_times(schedule: Schedule, count: int = 10, now: datetime | None = None) -> list[datetime]:
    """The next due times (UTC). Raises Invalid if the timing is invalid."""
    now = now or clock.near()
    try:
        return upcoming(schedule.timing(), beginning(schedule, now), count, end=schedule.ends_at)
    except (TimingError, OverflowError) as error:
        raise Invalid(f"This is never due: {error}", code="invalid_timing")


def run_now(schedule: Schedule, *, by: Any) -> ScheduleOccurrence:
    """Start it manually, regardless of its times and of runs in progress."""
    now = clock.near()
    try:
        with transaction.atomic():
            occurrence = ScheduleOccurrence.objects.create(
                schedule=schedule, due_at=now, start_at=now, is_manual=True, reason=f"started manually by {by}"
            )
    except IntegrityError:
        raise Conflict("This moment is already a due time.", hint="Try again.")
    rows = ScheduleOccurrence.objects.filter(pk=occurrence.pk)
    occurrences.start_occurrence(occurrences.join_schedules(rows).get())
    occurrence.refresh_from_db()
    return occurrence


def set_enabled(schedule: Schedule, enabled: bool, *, reason: str = "") -> Schedule:
    """Pause or resume; after a pause it continues with the next due time, and skipped ones stay
    skipped.
    """
    schedule.enabled = enabled
    schedule.paused_reason = "" if enabled else reason[:200]
    if enabled:
        schedule.failures = 0
        plan_next(schedule)
    schedule.save(update_fields=["enabled", "paused_reason", "failures", "next_due_at", "updated_at"])
    return schedule


def why_not(schedule: Schedule) -> str:
    """One sentence: why nothing starts, or when it will."""
    if not schedule.enabled:
        reason = translate(schedule.paused_reason) or gettext("somebody switched it off")
        return gettext("It is paused: %(reason)s.") % {"reason": reason}
    last = schedule.occurrences.first()
    if last and last.outcome in (Outcome.WAITING_DEVICE, Outcome.WAITING_OVERLAP):
        values = {"at": date_format(last.due_at, "DATETIME_FORMAT"), "reason": translate(last.reason)}
        return gettext("The due time %(at)s UTC %(reason)s.") % values
    if last and last.outcome in (Outcome.MISSED, Outcome.SKIPPED, Outcome.REFUSED, Outcome.FAILED):
        values = {
            "at": date_format(last.due_at, "DATETIME_FORMAT"),
            "outcome": gettext(last.outcome),
            "reason": translate(last.reason),
        }
        return gettext("The due time %(at)s UTC was %(outcome)s: %(reason)s.") % values
    if schedule.next_due_at is None:
        return gettext("It has no due time left.")
    at = date_format(schedule.next_due_at, "DATETIME_FORMAT")
    return gettext("The next due time is %(at)s UTC.") % {"at": at}
