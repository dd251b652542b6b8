"""Ends the hold of a restored site. Nobody knows what was done between the backup and the restore.

Runs that were under way at the backup and can only repeat themselves harmlessly continue; the others end as failed with
the code `restored`, their open calls as `unknown`. Due times and events of that period are not started again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from agents.exceptions import Invalid
from agents.models import AuditEvent, SiteHold, Tool, ToolGrant
from agents.tools import may_repeat
from plumbing import clock
from runs.models import Approval, InputRequest, Run, Schedule, ScheduleOccurrence, TriggerFiring, WebhookDelivery
from runs.queue import endings
from runs.schedules import tick

Outcome = ScheduleOccurrence.Outcome
BATCH = 500
REASON = "the site was restored from a backup; it may have been started before"


@dataclass
class Plan:
    """What was under way at the backup, and what `resume_site` does with it. Runs are first runs of their trees."""

    hold: SiteHold
    ending: list[Run] = field(default_factory=list)
    continuing: list[Run] = field(default_factory=list)
    schedules: int = 0
    firings: int = 0
    deliveries: int = 0


def plan_resumption(hold: SiteHold, *, run_all: bool = False) -> Plan:
    """`run_all`: every run continues, even if it may do something a second time."""
    result = Plan(hold)
    first_runs = under_way(hold).filter(Q(root=None) | Q(root=F("pk")))
    for run in first_runs.select_related("agent", "chain_version__chain"):
        if run_all or is_harmless(run):
            result.continuing.append(run)
        else:
            result.ending.append(run)
    result.schedules = find_passed_schedules(hold).count()
    result.firings = firings(hold).count()
    result.deliveries = WebhookDelivery.objects.filter(state=WebhookDelivery.State.PENDING).count()
    return result


def under_way(hold: SiteHold) -> QuerySet[Run]:
    return Run.objects.live().filter(created_at__lte=hold.since).order_by("pk")


def is_harmless(run: Run) -> bool:
    """Whether no tool of this run, or of an agent that it can call, may do something twice; of a chain: no."""
    tree = Run.objects.filter(Q(pk=run.pk) | Q(root=run))
    agents = set(tree.values_list("agent_id", flat=True))
    # A chain, or a message whose agent is not chosen yet.
    if None in agents:
        return False
    seen: set[Any] = set()
    unseen = agents
    while unseen:
        seen |= unseen
        grants = ToolGrant.objects.filter(agent__in=unseen).exclude(mode=ToolGrant.Mode.DENY).select_related("tool")
        called: set[Any] = set()
        for grant in grants:
            tool = grant.tool
            if tool.kind == Tool.Kind.CHAIN or not may_repeat(tool.effect, tool.kind):
                return False
            if tool.kind == Tool.Kind.AGENT:
                called.add(tool.source.get("agent"))
        unseen = called - seen
    return True


def resume_site(plan: Plan, *, by: Any = None) -> None:
    """Carry out the plan and end the hold. Interrupted, it can be done again."""
    error = {"code": "restored", "message": REASON}
    for run in plan.ending:
        endings.finish_run(run, Run.Status.FAILED, error=error)
    skip_due_times(plan.hold)
    firings(plan.hold).update(outcome=TriggerFiring.Outcome.REFUSED, reason=REASON)
    with transaction.atomic():
        postpone_deadlines(plan)
        AuditEvent.record("site.resumed", plan.hold, actor=by, source="resume", ended=len(plan.ending))
        plan.hold.delete()
    for run in plan.continuing:
        endings.wake(run.pk, waiting_for="timer")


def postpone_deadlines(plan: Plan) -> None:
    """Move the deadlines by the time during which the site did not run."""
    lost = clock.near() - plan.hold.snapshot_at
    runs = under_way(plan.hold)
    runs.filter(deadline__isnull=False).update(deadline=F("deadline") + lost)
    Approval.objects.open().filter(run__in=runs).update(expires_at=F("expires_at") + lost)
    InputRequest.objects.open().filter(run__in=runs).update(expires_at=F("expires_at") + lost)


def firings(hold: SiteHold) -> QuerySet[TriggerFiring]:
    """Events of before the backup that have not started a run there."""
    return TriggerFiring.objects.filter(outcome=TriggerFiring.Outcome.PENDING, created_at__lte=hold.since)


def find_passed_schedules(hold: SiteHold) -> QuerySet[Schedule]:
    """Schedules that were due between the backup and now: the lost site may have started them."""
    return Schedule.objects.filter(enabled=True, next_due_at__lte=clock.near())


def skip_due_times(hold: SiteHold) -> None:
    """They continue with the next due time, as after a pause."""
    now = clock.near()
    unstarted = (Outcome.DUE, Outcome.WAITING_DEVICE, Outcome.WAITING_OVERLAP)
    passed = ScheduleOccurrence.objects.filter(outcome__in=unstarted, due_at__lte=hold.since, is_manual=False)
    passed.update(outcome=Outcome.SKIPPED, reason=REASON, settled_at=now)
    for schedule in find_passed_schedules(hold).select_related("crontab", "interval", "clocked"):
        missed = ScheduleOccurrence(
            schedule=schedule, due_at=schedule.next_due_at, start_at=schedule.next_due_at, outcome=Outcome.SKIPPED,
            reason=REASON, settled_at=now,
        )  # fmt: skip
        ScheduleOccurrence.objects.bulk_create([missed], ignore_conflicts=True)
        plan_next(schedule)


def plan_next(schedule: Schedule) -> None:
    try:
        tick.plan_next(schedule)
    except Invalid:
        # It has no due time left.
        schedule.next_due_at = None
    schedule.save(update_fields=["next_due_at", "updated_at"])


def describe_runs(runs: Iterable[Run]) -> Iterable[str]:
    """One line for each run: its id, whose it is, what it does, its status."""
    for run in runs:
        chain = run.chain_version.chain if run.chain_version else None
        subject = run.agent or chain
        yield f"{run.pk}  {run.principal}  {subject}  {run.status}"
