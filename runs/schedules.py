"""The tick: once a second, start what is due and tell what became of what was started.

Two ticks at once, two beats by mistake, a clock set back: each due time is claimed by moving `next_due_at` on and by a
row that is unique for (schedule, due time), in one transaction. Whatever keeps a run from starting stands on that row.
"""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from agents.exceptions import Conflict, Invalid, MusterError
from agents.models import AuditEvent
from devices import presence

from . import endings, intake, outbox
from .missed import jittered, on_overlap, settle_missed
from .models import Run, Schedule, ScheduleOccurrence
from .timing import Missed, TimingError, come_due, next_due, upcoming

log = logging.getLogger(__name__)
Outcome = ScheduleOccurrence.Outcome
BATCH = 1000
ATTEMPTS = 3
ENDS = {
    Run.Status.SUCCEEDED: Outcome.SUCCEEDED,
    Run.Status.PARTIAL: Outcome.SUCCEEDED,
    Run.Status.CANCELLED: Outcome.CANCELLED,
}


def tick(now: datetime | None = None) -> dict[str, int]:
    """One pass; safe to run twice at once. Returns how many of each."""
    now = now or timezone.now()
    return {"claimed": claim_due(now), "started": start_open(now), "settled": settle_started()}


# -- claiming


def claim_due(now: datetime) -> int:
    due = Schedule.objects.due(now).select_related("crontab", "interval", "clocked").order_by("next_due_at")
    return sum(claim(schedule, now) for schedule in due[:BATCH])


def claim(schedule: Schedule, now: datetime) -> int:
    """Write down every due time up to now and move on; 0 when another tick did."""
    assert schedule.next_due_at is not None  # as `due` chose it
    try:
        found = come_due(schedule.timing(), schedule.next_due_at, now, end=schedule.ends_at)
    except TimingError as error:
        return pause(schedule, f"its timing cannot be read: {error}")
    rows = occurrences_of(schedule, found, now)
    with transaction.atomic():
        ours = Schedule.objects.filter(pk=schedule.pk, next_due_at=schedule.next_due_at, enabled=True)
        last = found.due[-1] if found.due else schedule.last_due_at
        if not ours.update(next_due_at=found.following, last_due_at=last):
            return 0
        ScheduleOccurrence.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)
    return len(rows)


def occurrences_of(schedule: Schedule, found: Missed, now: datetime) -> list[ScheduleOccurrence]:
    verdicts = settle_missed(found.due, now, schedule.missed_policy, schedule.missed_window_s)
    rows = [
        ScheduleOccurrence(
            schedule=schedule,
            due_at=verdict.due_at,
            start_at=jittered(verdict.due_at, schedule.jitter_s, str(schedule.pk)),
            outcome=Outcome.DUE if verdict.starts else Outcome.MISSED,
            reason=verdict.reason,
            settled_at=None if verdict.starts else now,
        )
        for verdict in verdicts
    ]
    if found.older and rows:
        rows[0].count += found.older
        rows[0].reason = f"{rows[0].reason} (and {found.older} earlier due times)"
    return rows


# -- starting


def start_open(now: datetime) -> int:
    """Start what is due, and what waited for an earlier run; what waits for a device is started by its return."""
    open_rows = ScheduleOccurrence.objects.filter(outcome=Outcome.DUE, start_at__lte=now)
    waiting = ScheduleOccurrence.objects.filter(outcome=Outcome.WAITING_OVERLAP)
    found = list(joined(open_rows).order_by("start_at", "id")[:BATCH]) + list(
        joined(waiting).order_by("due_at")[:BATCH]
    )
    return sum(start(occurrence) for occurrence in found)


def joined(rows: Any) -> Any:
    return rows.select_related(
        "schedule__owner", "schedule__agent__published", "schedule__agent__provider", "schedule__chain__published"
    )


def start(occurrence: ScheduleOccurrence) -> bool:
    """Start one run for it, or write down why not. True when a run was started."""
    schedule = occurrence.schedule
    if refusal := refusal_of(schedule):
        return conclude(occurrence, Outcome.REFUSED, refusal)
    if schedule.wait_for_device and not device_is_online(schedule):
        return wait_for_device(occurrence)
    if not occurrence.is_manual and not clear_the_way(occurrence):
        return False
    try:
        return begin(occurrence)
    except MusterError as error:
        return conclude(occurrence, Outcome.REFUSED, f"{error.code}: {error}")
    except IntegrityError as error:
        log.warning("Occurrence %s will be tried again: %s", occurrence.pk, error)
        return try_again(occurrence, str(error))


def refusal_of(schedule: Schedule) -> str:
    if schedule.owner is None:
        return "it has no owner to run for"
    if not schedule.owner.is_active:
        return f"its owner {schedule.owner} is not active"
    return ""


def clear_the_way(occurrence: ScheduleOccurrence) -> bool:
    """Follow the overlap policy; True when nothing stands in the way now."""
    schedule = occurrence.schedule
    earlier = ScheduleOccurrence.objects.filter(schedule=schedule).exclude(pk=occurrence.pk)
    running = list(earlier.filter(outcome=Outcome.STARTED, run__status__in=Run.LIVE).select_related("run"))
    if not running:
        return True
    waiting = earlier.filter(outcome=Outcome.WAITING_OVERLAP, due_at__lt=occurrence.due_at).count()
    decision = on_overlap(schedule.overlap_policy, running=len(running), waiting=waiting)
    reason = f"run {running[0].run_id} of {running[0].due_at:%Y-%m-%d %H:%M:%S} UTC was still at work"
    if decision == "skip":
        return conclude(occurrence, Outcome.SKIPPED, reason)
    if decision == "wait":
        still_open(occurrence).update(outcome=Outcome.WAITING_OVERLAP, reason=reason)
        return False
    for one in running if decision == "cancel" else []:
        cancel_earlier(one.run)
    return True


def cancel_earlier(run: Run | None) -> None:
    if run is None:
        return
    try:
        endings.cancel(run, by=None, reason="its schedule was due again")
    except MusterError:
        pass  # it ended by itself just now


@transaction.atomic
def begin(occurrence: ScheduleOccurrence) -> bool:
    """The run and the row that names it, in one transaction: neither is there without the other."""
    if not still_open(occurrence).update(outcome=Outcome.STARTED, attempts=F("attempts") + 1):
        return False
    schedule = occurrence.schedule
    told = {"schedule": schedule.name, "occurrence": str(occurrence.pk), "due_at": occurrence.due_at.isoformat()}
    if schedule.device:
        told["device"] = str(schedule.device)
    run = start_target(schedule, told, f"occurrence:{occurrence.pk}")
    ScheduleOccurrence.objects.filter(pk=occurrence.pk).update(run=run)
    return True


def start_target(schedule: Schedule, told: dict[str, Any], key: str) -> Run:
    if schedule.chain is not None:
        return intake.start_chain(
            user=schedule.owner,
            chain=visible(schedule.chain, schedule.owner),
            input=with_last_run(schedule),
            trigger=Run.Trigger.SCHEDULE,
            idempotency_key=key,
            metadata=told,
        )
    accepted = intake.accept_message(
        user=schedule.owner,
        agent=visible(schedule.agent, schedule.owner),
        text=schedule.text or f"Scheduled: {schedule.name}",
        input=schedule.input,
        trigger=Run.Trigger.SCHEDULE,
        idempotency_key=key,
        metadata=told,
        device=str(schedule.device) if schedule.device else None,
    )
    return accepted.run


def with_last_run(schedule: Schedule) -> Any:
    """A chain that asks for `last_run_at` is told when its last run began that succeeded, wholly or in part."""
    spec = schedule.chain.published.read_spec() if schedule.chain and schedule.chain.published else None
    if spec is None or "last_run_at" not in (spec.input_schema or {}).get("properties", {}):
        return schedule.input
    good = Run.objects.filter(
        occurrences__schedule=schedule, status__in=[Run.Status.SUCCEEDED, Run.Status.PARTIAL]
    ).order_by("-created_at")
    last = good.values_list("created_at", flat=True).first()
    return {**({"last_run_at": last.isoformat()} if last else {}), **(schedule.input or {})}


def visible(target: Any, user: Any) -> Any:
    """A target that its owner has unshared meanwhile is refused."""
    if not type(target).objects.visible_to(user).filter(pk=target.pk).exists():
        raise Invalid(f"“{target}” is no longer visible to {user}.", code="target_not_visible")
    return target


def still_open(occurrence: ScheduleOccurrence) -> Any:
    """The row as long as nobody else has moved it on."""
    return ScheduleOccurrence.objects.filter(pk=occurrence.pk, outcome=occurrence.outcome, attempts=occurrence.attempts)


def conclude(occurrence: ScheduleOccurrence, outcome: str, reason: str) -> bool:
    """Write down why no run was started. Always False, so that callers may return it."""
    fields = {"outcome": outcome, "reason": reason[:300], "settled_at": timezone.now()}
    if still_open(occurrence).update(**fields) and outcome == Outcome.REFUSED:
        count_failure(occurrence.schedule, reason)
    return False


def try_again(occurrence: ScheduleOccurrence, reason: str) -> bool:
    if occurrence.attempts + 1 >= ATTEMPTS:
        return conclude(occurrence, Outcome.REFUSED, f"not started in {ATTEMPTS} attempts: {reason}")
    still_open(occurrence).update(attempts=F("attempts") + 1, reason=reason[:300])
    return False


# -- devices


def device_is_online(schedule: Schedule) -> bool:
    return presence.is_online(schedule.owner_id, schedule.device)


def wait_for_device(occurrence: ScheduleOccurrence) -> bool:
    which = f"device {occurrence.schedule.device}" if occurrence.schedule.device else "any device of the owner"
    still_open(occurrence).update(outcome=Outcome.WAITING_DEVICE, reason=f"waits for {which} to come online")
    return False


def device_online(device_id: Any, owner_id: Any) -> int:
    """A device has come back: start what waited for it, one after the other in the order it was due."""
    waiting = ScheduleOccurrence.objects.filter(outcome=Outcome.WAITING_DEVICE, schedule__owner_id=owner_id)
    mine = waiting.filter(schedule__device__in=[device_id]) | waiting.filter(schedule__device=None)
    started = 0
    for occurrence in joined(mine).order_by("due_at", "id"):
        rows = still_open(occurrence)
        if rows.update(outcome=Outcome.DUE, reason="its device came online"):
            started += 1
    return started


# -- settling


def settle_started() -> int:
    """Occurrences whose run has ended: succeeded, failed, cancelled; failures are counted."""
    ended = ScheduleOccurrence.objects.filter(outcome=Outcome.STARTED, run__status__in=Run.DONE)
    return sum(settle(occurrence) for occurrence in ended.select_related("run", "schedule__owner")[:BATCH])


def settle(occurrence: ScheduleOccurrence) -> bool:
    run = occurrence.run
    outcome = ENDS.get(Run.Status(run.status), Outcome.FAILED)
    reason = (run.error or {}).get("message", "") if outcome != Outcome.SUCCEEDED else occurrence.reason
    rows = ScheduleOccurrence.objects.filter(pk=occurrence.pk, outcome=Outcome.STARTED)
    if not rows.update(outcome=outcome, reason=reason[:300], settled_at=timezone.now()):
        return False
    if outcome == Outcome.FAILED:
        count_failure(occurrence.schedule, reason)
    elif outcome == Outcome.SUCCEEDED:
        Schedule.objects.filter(pk=occurrence.schedule_id).exclude(failures=0).update(failures=0)
    return True


def count_failure(schedule: Schedule, reason: str) -> None:
    rows = Schedule.objects.filter(pk=schedule.pk)
    rows.update(failures=F("failures") + 1)
    failures = rows.values_list("failures", flat=True).get()
    if schedule.pause_after_failures and failures >= schedule.pause_after_failures:
        pause(schedule, f"{failures} failures in a row; the last: {reason}")


def pause(schedule: Schedule, reason: str) -> int:
    """Switch it off, say why, and tell its owner."""
    if not Schedule.objects.filter(pk=schedule.pk, enabled=True).update(enabled=False, paused_reason=reason[:200]):
        return 0
    AuditEvent.record("schedule.paused", schedule, reason=reason[:200])
    told = {"schedule": schedule.name, "reason": reason[:200]}
    transaction.on_commit(lambda: notify(schedule, told))
    return 0


def notify(schedule: Schedule, told: dict[str, Any]) -> None:
    """By webhook and by mail; a mail server that is away is logged, nothing more."""
    if schedule.owner_id:
        outbox.queue_notice(schedule.owner_id, "schedule.paused", told)
    if schedule.notify_email:
        try:
            send_mail(
                f"Schedule “{schedule.name}” was paused",
                f"{told['reason']}\n\n{settings.PUBLIC_URL}/admin/runs/schedule/{schedule.pk}/change/",
                None,
                [schedule.notify_email],
            )
        except OSError as error:
            log.warning("The notice of schedule %s was not mailed: %s", schedule.pk, error)


# -- by hand


def plan_next(schedule: Schedule, now: datetime | None = None) -> None:
    """Set `next_due_at` of a schedule that was made or changed (not saved). Raises Invalid."""
    now = now or timezone.now()
    after = max(now, schedule.starts_at - timedelta(microseconds=1)) if schedule.starts_at else now
    try:
        due = next_due(schedule.timing(), after)
    except TimingError as error:
        raise Invalid(f"This is never due: {error}", code="invalid_timing", hint="See docs/howto/schedules.md.")
    schedule.next_due_at = None if due and schedule.ends_at and due > schedule.ends_at else due
    if schedule.next_due_at is None and schedule.enabled:
        raise Invalid("This schedule would never be due.", code="never_due", hint="Check the date and the end.")


def preview(schedule: Schedule, count: int = 10, now: datetime | None = None) -> list[datetime]:
    """The next due times (UTC). Raises Invalid where the timing makes no sense."""
    now = now or timezone.now()
    after = max(now, schedule.starts_at - timedelta(microseconds=1)) if schedule.starts_at else now
    try:
        return upcoming(schedule.timing(), after, count, end=schedule.ends_at)
    except TimingError as error:
        raise Invalid(f"This is never due: {error}", code="invalid_timing")


def run_now(schedule: Schedule, *, by: Any) -> ScheduleOccurrence:
    """Start it by hand, beside its times and whatever is at work."""
    now = timezone.now()
    try:
        with transaction.atomic():
            occurrence = ScheduleOccurrence.objects.create(
                schedule=schedule, due_at=now, start_at=now, is_manual=True, reason=f"started by hand by {by}"
            )
    except IntegrityError:
        raise Conflict("This very moment is due already.", hint="Try again.")
    start(joined(ScheduleOccurrence.objects.filter(pk=occurrence.pk)).get())
    occurrence.refresh_from_db()
    return occurrence


def set_enabled(schedule: Schedule, enabled: bool, *, reason: str = "") -> Schedule:
    """Pause or resume; after a pause it goes on with the next due time, what was left out stays out."""
    schedule.enabled = enabled
    schedule.paused_reason = "" if enabled else reason[:200]
    if enabled:
        schedule.failures = 0
        plan_next(schedule)
    schedule.save(update_fields=["enabled", "paused_reason", "failures", "next_due_at", "updated_at"])
    return schedule


def why_not(schedule: Schedule) -> str:
    """One sentence on why nothing runs, or when it will."""
    if not schedule.enabled:
        return f"It is paused: {schedule.paused_reason or 'somebody switched it off'}."
    last = schedule.occurrences.first()
    if last and last.outcome in (Outcome.WAITING_DEVICE, Outcome.WAITING_OVERLAP):
        return f"What was due {last.due_at:%Y-%m-%d %H:%M:%S} UTC {last.reason}."
    if last and last.outcome in (Outcome.MISSED, Outcome.SKIPPED, Outcome.REFUSED, Outcome.FAILED):
        return f"What was due {last.due_at:%Y-%m-%d %H:%M:%S} UTC was {last.outcome}: {last.reason}."
    if schedule.next_due_at is None:
        return "It has no due time left."
    return f"It is due next {schedule.next_due_at:%Y-%m-%d %H:%M:%S} UTC."
