"""for_each: one row per item, several in parallel up to a limit, joined in order.

Agents and sub-chains are runs of their own; the chain starts as many as allowed. Tool calls run in
slots: a worker handles a slice of the items (runs/chains/slices.py), then the step goes to the back
of the queue.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Min, Q

from agents.mapping import MappingError, find_items
from agents.spec import ChainSpec, StepSpec
from devices.tools import has_settled
from plumbing import clock
from plumbing.statements import insert_each
from runs.calls import inputs
from runs.calls.call_records import waits_for_time
from runs.events import record as events
from runs.models import Approval, Run, StepRun, ToolCallRecord
from runs.queue import endings, wakeups
from runs.queue.locks import hold_run
from runs.rules.plan import ENDED

from . import children, steps
from .steps import StepFailed

Status = StepRun.Status
WELL = (Status.SUCCEEDED, Status.PARTIAL)
ERRORS_KEPT = 100
PROGRESS_STEPS = 50


def find_step_items(step: StepSpec, scope: dict[str, Any]) -> list[Any]:
    try:
        return find_items(step.for_each, scope)
    except MappingError as error:
        details = {"hint": error.hint} if error.hint else None
        raise StepFailed(error.code, f"step “{step.key}”: {error}", details)


def preview_items(step: StepSpec, scope: dict[str, Any]) -> dict[str, Any]:
    """The question shown for a step of many items."""
    items = find_step_items(step, scope)
    return {"items": len(items), "first": items[:3]}


def open_items(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, scope: dict[str, Any]) -> bool:
    """Create one row per item, then start the first ones."""
    items = find_step_items(step, scope)
    if not items:
        return end_fanout(run, row, Status.SUCCEEDED, output=[])
    with hold_run(run.pk):
        if not steps.claim_step(row, Status.RUNNING):
            return False
        fresh = [StepRun(run=run, key=row.key, item=place) for place in range(len(items))]
        insert_each(fresh, varying=("id", "item"))
        StepRun.objects.filter(pk=row.pk).update(total=len(items))
        row.total = len(items)
        steps.record_step_event(run, "step.started", row, total=row.total)
    if step.target_kind in children.KINDS:
        # The next look starts the children.
        return True
    open_slots(run, spec, step, row)
    return False


def read_parallel_limit(spec: ChainSpec, step: StepSpec) -> int:
    return min(spec.max_parallel, step.max_parallel)


def open_slots(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun) -> None:
    """Ask for as many workers as allowed; a mark prevents asking again too soon."""
    rows = StepRun.objects.filter(pk=row.pk, status=Status.RUNNING)
    slots = min(read_parallel_limit(spec, step), row.total)
    until = clock.Now(settings.LEASE_S)
    wakeups.enqueue_step(run, rows, slots=slots, lease_expires_at=until)


def add_slots(run: Run, row: StepRun, number: int = 1) -> None:
    """Ask for further workers."""
    rows = StepRun.objects.filter(pk=row.pk, status=Status.RUNNING)
    wakeups.enqueue_step(run, rows, slots=F("slots") + number)


def items(row: StepRun) -> Any:
    return StepRun.objects.filter(run_id=row.run_id, key=row.key, item__gte=0)


# -- as the chain sees it


def follow_items(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, read_scope: Any) -> bool:
    """Settle what ended, start what is allowed; True if the step itself has ended."""
    if row.done < row.total:
        settle_waiting(run, step, row)
        if step.target_kind in children.KINDS:
            start_children(run, spec, step, row, read_scope)
        else:
            mend_slots(run, spec, step, row)
        row.refresh_from_db(fields=["done", "failed", "total", "status"])
    if row.done < row.total:
        return False
    return join(run, step, row)


def has_item_news(row: StepRun) -> bool:
    """Whether all items have ended, or the child of one that waits."""
    if row.done >= row.total:
        return True
    return items(row).filter(status=Status.WAITING, child__status__in=Run.DONE).exists()


def next_retries(run: Run, rows: list[StepRun]) -> list[datetime]:
    """The earliest time at which a waiting item is due: for a retry, or because its call
    has to wait.
    """
    if not any(row.total and row.status == Status.RUNNING for row in rows):
        return []
    is_retried = Q(status=Status.READY)
    is_timed = Q(status=Status.WAITING, call__waiting_for__in=["timer", "input"])
    due_items = StepRun.objects.filter(is_retried | is_timed, run=run, item__gte=0)
    soonest = due_items.aggregate(at=Min("wake_at"))["at"]
    if soonest is None:
        return []
    return [soonest]


def settle_waiting(run: Run, step: StepSpec, row: StepRun) -> None:
    """Items whose child, approver, person or device has answered."""
    waiting = items(row).filter(status=Status.WAITING)
    for item in waiting.filter(child__status__in=Run.DONE).select_related("child"):
        settle_and_count_item(run, step, row, item, partial(children.settle_child, run, step, item))
    for item in waiting.filter(child=None, call__isnull=False).select_related("call__approval"):
        if not is_answered(item.call):
            continue
        # With an expired lease and no owner, any slot may take it.
        again = items(row).filter(pk=item.pk, status=Status.WAITING)
        if again.update(status=Status.RUNNING, lease_owner="", lease_expires_at=clock.Now()):
            add_slots(run, row)


def is_answered(call: ToolCallRecord) -> bool:
    """Whether what this call waits for has come, so that it can go on."""
    if call.outcome:
        return True
    if call.waiting_for == "approval":
        return call.approval.status != Approval.Status.OPEN
    if call.waiting_for == "device":
        return has_settled(str(call.pk))
    if call.waiting_for == "timer":
        return not waits_for_time(call)
    if call.waiting_for == "input":
        return inputs.is_closed(call)
    return Run.objects.filter(parent_call=call, status__in=Run.DONE).exists()


def start_children(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, read_scope: Any) -> None:
    """The next items, up to the limit of parallel ones, in order."""
    waiting = items(row).filter(status=Status.WAITING).count()
    room = max(read_parallel_limit(spec, step) - waiting, 0)
    is_due = Q(wake_at=None) | Q(wake_at__lte=clock.Now())
    ready = list(items(row).filter(is_due, status=Status.READY).order_by("item")[:room])
    if not ready:
        return
    scope = read_scope()
    values = find_step_items(step, scope)
    for item in ready:
        try:
            own_scope = item_scope(scope, values, item)
            input = steps.map_step_input(step, item, own_scope)
            children.start_child(run, spec, step, item, input, own_scope)
        except StepFailed as failure:
            settle = partial(steps.settle_step, run, step, item, error=failure.as_json())
            settle_and_count_item(run, step, row, item, settle)


def item_scope(scope: dict[str, Any], values: list[Any], item: StepRun) -> dict[str, Any]:
    return {**scope, "item": values[item.item], "index": item.item}


def mend_slots(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun) -> None:
    """Items remain but no worker is active: its worker died, or a retry has become due."""
    now = clock.now()
    if items(row).filter(status=Status.RUNNING, lease_expires_at__gte=now).exists():
        return
    is_just_sent = row.lease_expires_at is not None and row.lease_expires_at > now
    if is_just_sent:
        # The slots that were asked for are still on the queue: only a retry needs others.
        is_open = Q(status=Status.READY, wake_at__lte=now)
    else:
        is_due = Q(status=Status.READY) & (Q(wake_at=None) | Q(wake_at__lte=now))
        is_lost = Q(status=Status.RUNNING, lease_expires_at__lt=now)
        is_open = is_due | is_lost
    if items(row).filter(is_open).exists():
        open_slots(run, spec, step, row)


def join(run: Run, step: StepSpec, row: StepRun) -> bool:
    """The items' outputs in order, None for a failed one, and the errors."""
    outputs: list[Any] = []
    short: list[dict[str, Any]] = []
    broken = 0
    for place, status, output, error in items(row).order_by("item").values_list("item", "status", "output", "error"):
        is_well = status in WELL
        outputs.append(output if is_well else None)
        if not is_well:
            broken += 1
        if status != Status.SUCCEEDED:
            error = error or {}
            code = error.get("code", status)
            short.append({"index": place, "code": code, "message": error.get("message", "")})
    if not short:
        return end_fanout(run, row, Status.SUCCEEDED, output=outputs)
    status = Status.FAILED
    if not broken or (step.on_error == "continue" and broken < row.total):
        status = Status.PARTIAL
    error = items_error(row, short, broken=broken)
    return end_fanout(run, row, status, output=outputs, error=error)


def end_fanout(run: Run, row: StepRun, status: str, **result: Any) -> bool:
    """The step ends together with its event."""
    with hold_run(run.pk):
        return steps.end_step(run, row, status, **result)


def items_error(row: StepRun, short: list[dict[str, Any]], *, broken: int) -> dict[str, Any]:
    """Failed items, or if there are none those that did only part of their work."""
    if broken:
        code = "items_failed"
        summary = f"{row.failed} of {row.total} items failed"
    else:
        code = "items_partial"
        summary = f"{len(short)} of {row.total} items are partial"
    message = f"{summary}; the first: {short[0]['message']}"
    return {"code": code, "message": message, "items": short[:ERRORS_KEPT]}


# -- counting --------------------------------------------------------------------------------


@transaction.atomic
def settle_and_count_item(run: Run, step: StepSpec, row: StepRun, item: StepRun, settle: Any) -> None:
    """Settle one item and, if that ended it, count it on the step's row."""
    if settle() and item.status in ENDED:
        failed = 1 if item.status == Status.FAILED else 0
        add_to_counters(run, step, row, done=1, failed=failed)


def add_to_counters(
    run: Run, step: StepSpec, row: StepRun, *, done: int, failed: int, entries: Sequence[events.Entry] = ()
) -> None:
    """Add to the step's counters and report progress; after a failure that stops the step, skip
    items that have not begun.

    `entries` are events that come first.
    """
    if failed and step.on_error != "continue":
        now = clock.near()
        done += items(row).filter(status=Status.READY).update(status=Status.CANCELLED, finished_at=now)
    rows = StepRun.objects.filter(pk=row.pk)
    rows.update(done=F("done") + done, failed=F("failed") + failed)
    # Other workers count on the same row.
    row.done, row.failed, row.total = rows.values_list("done", "failed", "total").get()
    recorded = list(entries)
    # An event for each item would be too many: one whenever another part of them has ended.
    part = max(1, row.total // PROGRESS_STEPS)
    done_before = row.done - done
    if row.done >= row.total or row.done // part != done_before // part:
        progress = {"key": row.key, "done": row.done, "failed": row.failed, "total": row.total}
        recorded.append(("chain.progress", progress))
    events.record_many(run, recorded)
    if row.done >= row.total:
        endings.wake(run.pk)


def recount(row: StepRun) -> None:
    """The counts from the rows, if another worker settled some of them in the meantime."""
    done = Count("pk", filter=Q(status__in=ENDED))
    failed = Count("pk", filter=Q(status=Status.FAILED))
    counts = items(row).aggregate(done=done, failed=failed)
    StepRun.objects.filter(pk=row.pk).update(**counts)
