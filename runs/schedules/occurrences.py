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
# Started in one transaction.
GROUP = 250
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
    # Read before any of the others is started, so that each is looked at once.
    rows = list(join_schedules(due)[:BATCH])
    rows += [row for row in waiting_for_nothing() if is_in_window(row, now)]
    for occurrence in rows:
        started += start_occurrence(occurrence)
    return started


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
    chain_runs: list[Run] = []
    messages: list[tuple[Run, str, str | None]] = []
    for row in ready:
        if row.run.chain_version_id:
            chain_runs.append(row.run)
        if row.run.agent_id:
            messages.append((row.run, build_schedule_text(row.schedule), get_schedule_device(row.schedule)))
    chains.insert_chain_runs(chain_runs)
    intake.open_sessions(messages)
    update_each(ready, ("outcome", "attempts", "run"))
    return len(ready)


def prepare_occurrences(group: list[ScheduleOccurrence]) -> list[ScheduleOccurrence]:
    """The unobstructed ones, the first of each schedule, each with its run, which is not stored
    yet.
    """
    busy = busy_schedules(group)
    # Many schedules may start the same thing for the same person: it is checked once.
    checked: set[tuple[Any, ...]] = set()
    ready = []
    for occurrence in group:
        schedule = occurrence.schedule
        if schedule.pk in busy:
            continue
        target = (schedule.chain_id, schedule.agent_id, schedule.owner_id)
        try:
            if target not in checked:
                checks.check_usable(schedule.target, schedule.owner)
            occurrence.run = build_occurrence_run(occurrence)
        except MusterError:
            # Reported when it is started individually.
            continue
        except DATABASE_GONE:
            raise
        # An unexpected error of one must not keep others from starting.
        except Exception:
            log.exception("Occurrence %s cannot be prepared", occurrence.pk)
            continue
        checked.add(target)
        busy.add(schedule.pk)
        occurrence.outcome = Outcome.STARTED
        occurrence.attempts += 1
        ready.append(occurrence)
    return ready


def build_occurrence_run(occurrence: ScheduleOccurrence) -> Run:
    schedule = occurrence.schedule
    fields = order(occurrence)
    if schedule.chain is not None:
        run = intake.chain_run(**fields, chain=schedule.chain, priority=schedule.options.get("priority"))
    else:
        run = intake.message_run(**fields, agent=schedule.agent, asked=schedule.options)
    run.idempotency_key = build_occurrence_key(occurrence)
    return run


def busy_schedules(group: list[ScheduleOccurrence]) -> set[int]:
    """Schedules with a run in progress, or with an earlier due time that still waits."""
    schedule_ids = {row.schedule_id for row in group}
    rows = ScheduleOccurrence.objects.filter(schedule__in=schedule_ids)
    at_work = rows.filter(outcome=Outcome.STARTED, run__status__in=Run.LIVE)
    waiting = rows.filter(outcome=Outcome.WAITING_OVERLAP)
    busy = set(at_work.values_list("schedule_id", flat=True))
    busy.update(waiting.values_list("schedule_id", flat=True))
    return busy


# -- one at a time ----------------------------------------------------------------------------------------------------


def waiting_for_nothing() -> list[ScheduleOccurrence]:
    """Occurrences that waited for an earlier run that has ended."""
    waiting = ScheduleOccurrence.objects.filter(outcome=Outcome.WAITING_OVERLAP)
    at_work = ScheduleOccurrence.objects.filter(outcome=Outcome.STARTED, run__status__in=Run.LIVE)
    behind = {"schedule__overlap_policy": Schedule.Overlap.QUEUE, "schedule__in": at_work.values("schedule")}
    rows = join_schedules(waiting).order_by("due_at").exclude(**behind)
    return list(rows[:BATCH])


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
    refusal = find_schedule_refusal(schedule)
    if refusal:
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
    # An unexpected error of one must not keep others from starting.
    except Exception:
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
    others = ScheduleOccurrence.objects.filter(schedule=schedule).exclude(pk=occurrence.pk)
    running = list(others.filter(outcome=Outcome.STARTED, run__status__in=Run.LIVE).select_related("run"))
    earlier = others.filter(outcome=Outcome.WAITING_OVERLAP, due_at__lt=occurrence.due_at)
    waiting = list(earlier.order_by("due_at")[:1])
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
    if decision == "cancel":
        for predecessor in running:
            cancel_earlier(predecessor.run)
    return True


def reason_to_wait(running: list[ScheduleOccurrence], waiting: list[ScheduleOccurrence]) -> str:
    if running:
        earlier = running[0]
        return f"run {earlier.run_id} of {earlier.due_at:%Y-%m-%d %H:%M:%S} UTC was still in progress"
    return f"the due time {waiting[0].due_at:%Y-%m-%d %H:%M:%S} UTC waits before it"


def cancel_earlier(run: Run | None) -> None:
    if run is None:
        return
    try:
        endings.cancel_run(run, by=None, reason="its schedule was due again")
    except MusterError:
        # It just ended by itself.
        pass


@transaction.atomic
def store_occurrence_run(occurrence: ScheduleOccurrence) -> bool:
    """The run and the row that names it, in one transaction."""
    claimed = still_open(occurrence).update(outcome=Outcome.STARTED, attempts=F("attempts") + 1)
    if not claimed:
        return False
    run = start_target(occurrence)
    ScheduleOccurrence.objects.filter(pk=occurrence.pk).update(run=run)
    return True


def start_target(occurrence: ScheduleOccurrence) -> Run:
    schedule = occurrence.schedule
    target = checks.check_usable(schedule.target, schedule.owner)
    fields = order(occurrence)
    key = build_occurrence_key(occurrence)
    if schedule.chain is not None:
        priority = schedule.options.get("priority")
        return intake.start_chain(chain=target, priority=priority, idempotency_key=key, **fields)
    accepted = intake.accept_message(
        agent=target,
        text=build_schedule_text(schedule),
        device=get_schedule_device(schedule),
        asked=schedule.options,
        idempotency_key=key,
        **fields,
    )
    return accepted.run


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
    if schedule.device is None:
        return None
    return str(schedule.device)


def build_occurrence_key(occurrence: ScheduleOccurrence) -> str:
    return f"occurrence:{occurrence.pk}"


def describe_occurrence(occurrence: ScheduleOccurrence) -> dict[str, Any]:
    """The metadata of its run."""
    schedule = occurrence.schedule
    fields = {"schedule": schedule.name, "occurrence": str(occurrence.pk), "due_at": occurrence.due_at.isoformat()}
    if schedule.device:
        fields["device"] = str(schedule.device)
    return fields


def with_last_run(schedule: Schedule) -> Any:
    """A chain with the input `last_run_at` receives the start of its last run that succeeded. A run
    that did only part of its work does not count: what it left out must come again.
    """
    if schedule.chain is None or schedule.chain.published is None:
        return schedule.input
    input_schema = schedule.chain.published.read_spec().input_schema or {}
    if "last_run_at" not in input_schema.get("properties", {}):
        return schedule.input
    if not isinstance(schedule.input, dict | None):
        # The chain refuses it.
        return schedule.input
    good = Run.objects.filter(occurrences__schedule=schedule, status=Run.Status.SUCCEEDED).order_by("-created_at")
    last = good.values_list("created_at", flat=True).first()
    input: dict[str, Any] = {}
    if last:
        input["last_run_at"] = last.isoformat()
    # A value that the schedule itself gives counts.
    input.update(schedule.input or {})
    return input


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
    device = occurrence.schedule.device
    which = f"device {device}" if device else "any device of the owner"
    still_open(occurrence).update(outcome=Outcome.WAITING_DEVICE, reason=f"waits for {which} to come online")
    return False


# -- settling


def settle_started() -> int:
    """Occurrences whose run has ended: succeeded, failed, cancelled; failures are counted."""
    ended = ScheduleOccurrence.objects.filter(outcome=Outcome.STARTED, run__status__in=Run.DONE)
    well: list[ScheduleOccurrence] = []
    others: list[ScheduleOccurrence] = []
    for row in ended.select_related("run", "schedule__owner")[:BATCH]:
        if row.run.status == Run.Status.SUCCEEDED:
            well.append(row)
        else:
            others.append(row)
    return settle_well(well) + sum(map(settle_occurrence, others))


@transaction.atomic
def settle_well(rows: list[ScheduleOccurrence]) -> int:
    """Those that succeeded, all at once. A success ends the count of failures in a row."""
    now = clock.near()
    for occurrence in rows:
        occurrence.outcome = Outcome.SUCCEEDED
        occurrence.settled_at = now
    settled = update_each(rows, ("outcome", "settled_at"), where={"outcome": Outcome.STARTED})
    schedule_ids = {row.schedule_id for row in rows}
    Schedule.objects.filter(pk__in=schedule_ids).exclude(failures=0).update(failures=0)
    return settled


def settle_occurrence(occurrence: ScheduleOccurrence) -> bool:
    run = occurrence.run
    outcome = ENDS.get(Run.Status(run.status), Outcome.FAILED)
    reason = occurrence.reason
    if outcome != Outcome.SUCCEEDED:
        reason = (run.error or {}).get("message", "")
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
    reason = reason[:200]
    enabled = Schedule.objects.filter(pk=schedule.pk, enabled=True)
    if not enabled.update(enabled=False, paused_reason=reason):
        return 0
    AuditEvent.record("schedule.paused", schedule, reason=reason)
    notice = {"schedule": schedule.name, "reason": reason}
    transaction.on_commit(lambda: notify(schedule, notice))
    return 0


def notify(schedule: Schedule, notice: dict[str, Any]) -> None:
    """By webhook and by e-mail; a failing mail server is logged."""
    if schedule.owner_id:
        outbox.queue_notice(schedule.owner_id, "schedule.paused", notice)
    if not schedule.notify_email:
        return
    title = f"Schedule “{schedule.name}” was paused"
    page = f"{settings.PUBLIC_URL}/admin/runs/schedule/{schedule.pk}/change/"
    text = f"{notice['reason']}\n\n{page}"
    try:
        send_mail(title, text, None, [schedule.notify_email])
    except OSError as error:
        log.warning("The notice about schedule %s was not sent: %s", schedule.pk, error)
