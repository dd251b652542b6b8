"""Occurrences: each due time is started once or records why not, and later records how its run
ended.
"""

import logging
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import F

from agents.exceptions import MusterError, NewerFormat
from agents.models import AuditEvent
from devices import presence
from plumbing import clock
from plumbing.database import DATABASE_GONE
from plumbing.statements import update_each
from runs.events import outbox
from runs.intake import chains, checks
from runs.intake import messages as intake
from runs.models import Run, Schedule, ScheduleOccurrence
from runs.queue import endings
from runs.rules.missed import is_outdated, on_overlap

log = logging.getLogger(__name__)
Outcome = ScheduleOccurrence.Outcome
BATCH = 1000
GROUP = 250  # started in one transaction
ATTEMPTS = 3
ENDS = {
    Run.Status.SUCCEEDED: Outcome.SUCCEEDED,
    Run.Status.PARTIAL: Outcome.SUCCEEDED,
    Run.Status.CANCELLED: Outcome.CANCELLED,
}


def start_open(now: datetime) -> int:
    """Start due occurrences, and those that waited for an earlier run; a device's return starts
    those that waited for it.
    """
    due = ScheduleOccurrence.objects.filter(outcome=Outcome.DUE, start_at__lte=now).order_by("start_at", "id")
    started = start_together(due)
    rows = list(join_schedules(due)[:BATCH]) + [row for row in waiting_for_nothing() if is_in_window(row, now)]
    return started + sum(start_occurrence(occurrence) for occurrence in rows)


# -- many at once -----------------------------------------------------------------------------------------------------


def start_together(due: Any) -> int:
    """Start unobstructed occurrences in a group; the rest stays due. Returns how many were started."""
    started = 0
    for _ in range(BATCH // GROUP):
        try:
            count = start_group(due)
        except IntegrityError as error:
            log.info("A group of occurrences will be started one by one: %s", error)
            break
        started += count
        if count < GROUP:
            break
    return started


@transaction.atomic
def start_group(due: Any) -> int:
    """One transaction for the claims, the runs and the rows that name them. Returns how many."""
    plain = due.filter(schedule__wait_for_device=False, is_manual=False)
    group = list(join_schedules(plain).select_for_update(skip_locked=True, of=("self",))[:GROUP])
    ready = prepare_occurrences([row for row in group if not find_schedule_refusal(row.schedule)])
    chains.insert_chain_runs([row.run for row in ready if row.run.chain_version_id])
    messages = [
        (row.run, build_schedule_text(row.schedule), get_schedule_device(row.schedule))
        for row in ready
        if row.run.agent_id
    ]
    intake.open_sessions(messages)
    update_each(ready, ("outcome", "attempts", "run"))
    return len(ready)


def prepare_occurrences(group: list[ScheduleOccurrence]) -> list[ScheduleOccurrence]:
    """The unobstructed ones, the first of each schedule, each with its run, which is not stored
    yet.
    """
    busy, seen = busy_schedules(group), set()
    ready = []
    for occurrence in group:
        schedule = occurrence.schedule
        if schedule.pk in busy:
            continue
        try:
            target = (schedule.chain_id, schedule.agent_id, schedule.owner_id)
            if target not in seen:
                checks.check_usable(schedule.target, schedule.owner)
            occurrence.run = build_occurrence_run(occurrence)
        except MusterError:
            continue  # reported when it is started individually
        except DATABASE_GONE:
            raise
        except Exception:  # an unexpected error of one must not keep others from starting
            log.exception("Occurrence %s cannot be prepared", occurrence.pk)
            continue
        seen.add(target)
        busy.add(schedule.pk)
        occurrence.outcome, occurrence.attempts = Outcome.STARTED, occurrence.attempts + 1
        ready.append(occurrence)
    return ready


def build_occurrence_run(occurrence: ScheduleOccurrence) -> Run:
    schedule = occurrence.schedule
    if schedule.chain is not None:
        run = intake.chain_run(**order(occurrence), chain=schedule.chain, priority=schedule.options.get("priority"))
    else:
        run = intake.message_run(**order(occurrence), agent=schedule.agent, asked=schedule.options)
    run.idempotency_key = build_occurrence_key(occurrence)
    return run


def busy_schedules(group: list[ScheduleOccurrence]) -> set[int]:
    """Schedules with a run in progress, or with an earlier due time that still waits."""
    rows = ScheduleOccurrence.objects.filter(schedule__in={row.schedule_id for row in group})
    at_work = rows.filter(outcome=Outcome.STARTED, run__status__in=Run.LIVE)
    waiting = rows.filter(outcome=Outcome.WAITING_OVERLAP)
    return {*at_work.values_list("schedule_id", flat=True), *waiting.values_list("schedule_id", flat=True)}


# -- one at a time ----------------------------------------------------------------------------------------------------


def waiting_for_nothing() -> list[ScheduleOccurrence]:
    """Occurrences that waited for an earlier run that has ended."""
    waiting = join_schedules(ScheduleOccurrence.objects.filter(outcome=Outcome.WAITING_OVERLAP)).order_by("due_at")
    still = ScheduleOccurrence.objects.filter(outcome=Outcome.STARTED, run__status__in=Run.LIVE)
    behind = {"schedule__overlap_policy": Schedule.Overlap.QUEUE, "schedule__in": still.values("schedule")}
    return list(waiting.exclude(**behind)[:BATCH])


def is_in_window(occurrence: ScheduleOccurrence, now: datetime) -> bool:
    """Whether it still starts; one that waited beyond the window is missed."""
    schedule = occurrence.schedule
    if schedule.missed_policy != Schedule.Missed.ALL:
        return True
    if not is_outdated(occurrence.due_at, now, schedule.missed_window_s):
        return True
    return conclude(occurrence, Outcome.MISSED, "it waited for earlier runs until it was outside the window")


def join_schedules(rows: Any) -> Any:
    return rows.select_related(
        "schedule__owner", "schedule__agent__published", "schedule__agent__provider", "schedule__chain__published"
    )


def start_occurrence(occurrence: ScheduleOccurrence) -> bool:
    """Start one run for it, or record why not. True if a run was started."""
    schedule = occurrence.schedule
    if refusal := find_schedule_refusal(schedule):
        return conclude(occurrence, Outcome.REFUSED, refusal)
    if schedule.wait_for_device and not device_is_online(schedule):
        return wait_for_device(occurrence)
    if not occurrence.is_manual and not clear_the_way(occurrence):
        return False
    try:
        return store_occurrence_run(occurrence)
    except NewerFormat as error:
        log.warning("Occurrence %s is left to a newer worker: %s", occurrence.pk, error)
        return False
    except MusterError as error:
        return conclude(occurrence, Outcome.REFUSED, f"{error.code}: {error}")
    except IntegrityError as error:
        log.warning("Occurrence %s will be tried again: %s", occurrence.pk, error)
        return try_again(occurrence, str(error))
    except DATABASE_GONE:
        raise
    except Exception:  # as in `prepare_occurrences`
        log.exception("Occurrence %s failed", occurrence.pk)
        return try_again(occurrence, "internal error; the server's log has the reason")


def find_schedule_refusal(schedule: Schedule) -> str:
    if schedule.owner is None:
        return "it has no owner to run for"
    if not schedule.owner.is_active:
        return f"its owner {schedule.owner} is not active"
    return ""


def clear_the_way(occurrence: ScheduleOccurrence) -> bool:
    """Apply the overlap policy; True if the occurrence can start now."""
    schedule = occurrence.schedule
    earlier = ScheduleOccurrence.objects.filter(schedule=schedule).exclude(pk=occurrence.pk)
    running = list(earlier.filter(outcome=Outcome.STARTED, run__status__in=Run.LIVE).select_related("run"))
    waiting = list(earlier.filter(outcome=Outcome.WAITING_OVERLAP, due_at__lt=occurrence.due_at).order_by("due_at")[:1])
    decision = on_overlap(
        schedule.overlap_policy,
        running=len(running),
        waiting=len(waiting),
        misses_none=schedule.missed_policy == Schedule.Missed.ALL,
    )
    if decision == "start":
        return True
    reason = reason_to_wait(running, waiting)
    if decision == "skip":
        return conclude(occurrence, Outcome.SKIPPED, reason)
    if decision == "wait":
        still_open(occurrence).update(outcome=Outcome.WAITING_OVERLAP, reason=reason)
        return False
    for predecessor in running if decision == "cancel" else []:
        cancel_earlier(predecessor.run)
    return True


def reason_to_wait(running: list[ScheduleOccurrence], waiting: list[ScheduleOccurrence]) -> str:
    if not running:
        return f"the due time {waiting[0].due_at:%Y-%m-%d %H:%M:%S} UTC waits before it"
    return f"run {running[0].run_id} of {running[0].due_at:%Y-%m-%d %H:%M:%S} UTC was still in progress"


def cancel_earlier(run: Run | None) -> None:
    if run is None:
        return
    try:
        endings.cancel_run(run, by=None, reason="its schedule was due again")
    except MusterError:
        pass  # it just ended by itself


@transaction.atomic
def store_occurrence_run(occurrence: ScheduleOccurrence) -> bool:
    """The run and the row that names it, in one transaction."""
    if not still_open(occurrence).update(outcome=Outcome.STARTED, attempts=F("attempts") + 1):
        return False
    run = start_target(occurrence)
    ScheduleOccurrence.objects.filter(pk=occurrence.pk).update(run=run)
    return True


def start_target(occurrence: ScheduleOccurrence) -> Run:
    schedule = occurrence.schedule
    target = checks.check_usable(schedule.target, schedule.owner)
    fields = {**order(occurrence), "idempotency_key": build_occurrence_key(occurrence)}
    if schedule.chain is not None:
        return intake.start_chain(chain=target, priority=schedule.options.get("priority"), **fields)
    more = {"text": build_schedule_text(schedule), "device": get_schedule_device(schedule), "asked": schedule.options}
    return intake.accept_message(agent=target, **more, **fields).run


def order(occurrence: ScheduleOccurrence) -> dict[str, Any]:
    """The request to intake, for either kind of target."""
    schedule = occurrence.schedule
    input = with_last_run(schedule) if schedule.chain else schedule.input
    return {
        "user": schedule.owner,
        "input": input,
        "trigger": Run.Trigger.SCHEDULE,
        "metadata": describe_occurrence(occurrence),
    }


def build_schedule_text(schedule: Schedule) -> str:
    return schedule.text or f"Scheduled: {schedule.name}"


def get_schedule_device(schedule: Schedule) -> str | None:
    return str(schedule.device) if schedule.device else None


def build_occurrence_key(occurrence: ScheduleOccurrence) -> str:
    return f"occurrence:{occurrence.pk}"


def describe_occurrence(occurrence: ScheduleOccurrence) -> dict[str, Any]:
    schedule = occurrence.schedule
    fields = {"schedule": schedule.name, "occurrence": str(occurrence.pk), "due_at": occurrence.due_at.isoformat()}
    return {**fields, "device": str(schedule.device)} if schedule.device else fields


def with_last_run(schedule: Schedule) -> Any:
    """A chain with the input `last_run_at` receives the start of its last run that succeeded. A run
    that did only part of its work does not count: what it left out must come again.
    """
    spec = schedule.chain.published.read_spec() if schedule.chain and schedule.chain.published else None
    if spec is None or "last_run_at" not in (spec.input_schema or {}).get("properties", {}):
        return schedule.input
    if not isinstance(schedule.input, dict | None):
        return schedule.input  # the chain refuses it
    good = Run.objects.filter(occurrences__schedule=schedule, status=Run.Status.SUCCEEDED).order_by("-created_at")
    last = good.values_list("created_at", flat=True).first()
    return {**({"last_run_at": last.isoformat()} if last else {}), **(schedule.input or {})}


def still_open(occurrence: ScheduleOccurrence) -> Any:
    """The row, if nothing else has changed its state."""
    return ScheduleOccurrence.objects.filter(pk=occurrence.pk, outcome=occurrence.outcome, attempts=occurrence.attempts)


def conclude(occurrence: ScheduleOccurrence, outcome: str, reason: str) -> bool:
    """Record why no run was started. Returns False, for use in a return statement."""
    fields = {"outcome": outcome, "reason": reason[:300], "settled_at": clock.near()}
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


# -- settling


def settle_started() -> int:
    """Occurrences whose run has ended: succeeded, failed, cancelled; failures are counted."""
    ended = ScheduleOccurrence.objects.filter(outcome=Outcome.STARTED, run__status__in=Run.DONE)
    rows = list(ended.select_related("run", "schedule__owner")[:BATCH])
    well = [row for row in rows if row.run.status == Run.Status.SUCCEEDED]
    return settle_well(well) + sum(settle_occurrence(row) for row in rows if row.run.status != Run.Status.SUCCEEDED)


@transaction.atomic
def settle_well(rows: list[ScheduleOccurrence]) -> int:
    now = clock.near()
    for occurrence in rows:
        occurrence.outcome, occurrence.settled_at = Outcome.SUCCEEDED, now
    settled = update_each(rows, ("outcome", "settled_at"), where={"outcome": Outcome.STARTED})
    Schedule.objects.filter(pk__in={row.schedule_id for row in rows}).exclude(failures=0).update(failures=0)
    return settled


def settle_occurrence(occurrence: ScheduleOccurrence) -> bool:
    run = occurrence.run
    outcome = ENDS.get(Run.Status(run.status), Outcome.FAILED)
    reason = (run.error or {}).get("message", "") if outcome != Outcome.SUCCEEDED else occurrence.reason
    rows = ScheduleOccurrence.objects.filter(pk=occurrence.pk, outcome=Outcome.STARTED)
    if not rows.update(outcome=outcome, reason=reason[:300], settled_at=clock.near()):
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
        pause_schedule(schedule, f"{failures} failures in a row; the last: {reason}")


def pause_schedule(schedule: Schedule, reason: str) -> int:
    """Switch it off, record why, and notify its owner."""
    if not Schedule.objects.filter(pk=schedule.pk, enabled=True).update(enabled=False, paused_reason=reason[:200]):
        return 0
    AuditEvent.record("schedule.paused", schedule, reason=reason[:200])
    notice = {"schedule": schedule.name, "reason": reason[:200]}
    transaction.on_commit(lambda: notify(schedule, notice))
    return 0


def notify(schedule: Schedule, notice: dict[str, Any]) -> None:
    """By webhook and by e-mail; a failing mail server is logged."""
    if schedule.owner_id:
        outbox.queue_notice(schedule.owner_id, "schedule.paused", notice)
    if schedule.notify_email:
        try:
            send_mail(
                f"Schedule “{schedule.name}” was paused",
                f"{notice['reason']}\n\n{settings.PUBLIC_URL}/admin/runs/schedule/{schedule.pk}/change/",
                None,
                [schedule.notify_email],
            )
        except OSError as error:
            log.warning("The notice about schedule %s was not sent: %s", schedule.pk, error)
