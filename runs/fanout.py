"""for_each: one row an item, worked on side by side, at most so many at once, joined in order.

Agents and sub-chains are runs of their own; the chain starts as many as may be at work. Tool calls are done in slots:
a message on the queue works for half a second, then goes to the back, so that a thousand items of one chain leave room
for the others. Calls of one batch are recorded together before they are made, and settled together.
"""

import secrets
import time
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Min, Q
from django.utils import timezone

from agents.mapping import MappingError, items_of
from agents.spec import ChainSpec, StepSpec
from agents.tools import ToolSpec

from . import endings, events, queue, step_leases, steps
from .models import Run, StepRun, ToolCallRecord
from .plan import ENDED, may_retry
from .steps import HeldDesk, StepFailed

Status = StepRun.Status
SLICE_S = 0.5
FLUSH_S = 0.2
FIRST_BATCH, BATCH = 4, 64
ERRORS_KEPT = 100
PROGRESS_STEPS = 50


def items_for(step: StepSpec, scope: dict[str, Any]) -> list[Any]:
    try:
        return items_of(step.for_each, scope)
    except MappingError as error:
        raise StepFailed(error.code, f"step “{step.key}”: {error}", {"hint": error.hint} if error.hint else None)


def preview(step: StepSpec, scope: dict[str, Any]) -> dict[str, Any]:
    """What a person is asked about a step of many items."""
    items = items_for(step, scope)
    return {"items": len(items), "first": items[:3]}


def open_items(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, scope: dict[str, Any]) -> bool:
    """One row an item, then the first of them start."""
    items = items_for(step, scope)
    if not items:
        return steps.end(run, row, Status.SUCCEEDED, output=[])
    with transaction.atomic():
        if not steps.claim(row, Status.RUNNING):
            return False
        fresh = [StepRun(run=run, key=row.key, item=place) for place in range(len(items))]
        StepRun.objects.bulk_create(fresh, batch_size=500, ignore_conflicts=True)
        StepRun.objects.filter(pk=row.pk).update(total=len(items))
        row.total = len(items)
        steps.tell(run, "step.started", row, total=row.total)
    if step.target_kind in steps.KINDS_WITH_CHILD:
        return True  # the next look starts the children
    open_slots(spec, step, row)
    return False


def limit_of(spec: ChainSpec, step: StepSpec) -> int:
    return min(spec.max_parallel, step.max_parallel)


def open_slots(spec: ChainSpec, step: StepSpec, row: StepRun) -> None:
    """Messages for as many slots as may be; the mark keeps them from being sent again before they could be lost."""
    until = timezone.now() + timedelta(seconds=settings.LEASE_S)
    StepRun.objects.filter(pk=row.pk, status=Status.RUNNING).update(lease_expires_at=until)
    for _ in range(min(limit_of(spec, step), row.total)):
        queue.enqueue_step(row.pk)


def items(row: StepRun) -> Any:
    return StepRun.objects.filter(run_id=row.run_id, key=row.key, item__gte=0)


# -- as the chain sees it


def follow(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, read_scope: Any) -> bool:
    """Settle what ended, start what may; True when the step itself has ended."""
    if row.done < row.total:
        settle_waiting(run, step, row)
        if step.target_kind in steps.KINDS_WITH_CHILD:
            start_children(run, spec, step, row, read_scope)
        else:
            mend_slots(run, spec, step, row)
        row.refresh_from_db(fields=["done", "failed", "total", "status"])
    return row.done >= row.total and join(run, step, row)


def something_came(row: StepRun) -> bool:
    return row.done >= row.total or items(row).filter(status=Status.WAITING, child__status__in=Run.DONE).exists()


def next_retries(run: Run, rows: list[StepRun]) -> list[datetime]:
    """When the earliest item that waits to be tried again is due."""
    if not any(row.total and row.status == Status.RUNNING for row in rows):
        return []
    soonest = StepRun.objects.filter(run=run, item__gte=0, status=Status.READY).aggregate(at=Min("wake_at"))["at"]
    return [soonest] if soonest else []


def settle_waiting(run: Run, step: StepSpec, row: StepRun) -> None:
    """Items whose child, or whose call's person or device, has answered."""
    for item in items(row).filter(status=Status.WAITING, child__status__in=Run.DONE).select_related("child"):
        count(run, step, row, item, lambda item=item: steps.settle_child(run, step, item))
    answered = ~Q(call__outcome="") | (Q(call__waiting_for="approval") & ~Q(call__approval__status="open"))
    answered |= Q(call__waiting_for__in=["device", "child"])
    for item in items(row).filter(answered, status=Status.WAITING, child=None, call__isnull=False):
        again = items(row).filter(pk=item.pk, status=Status.WAITING)
        if again.update(status=Status.RUNNING, lease_owner="", lease_expires_at=timezone.now()):
            queue.enqueue_step(row.pk)


def start_children(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, read_scope: Any) -> None:
    """As many as may be at work at once, in order."""
    room = limit_of(spec, step) - items(row).filter(status=Status.WAITING).count()
    due = Q(wake_at=None) | Q(wake_at__lte=timezone.now())
    ready = list(items(row).filter(due, status=Status.READY).order_by("item")[: max(room, 0)])
    if not ready:
        return
    scope = read_scope()
    values = items_for(step, scope)
    for item in ready:
        try:
            given = steps.input_of(step, item, item_scope(scope, values, item))
            steps.start_child(run, spec, step, item, given)
        except StepFailed as failure:
            error = failure.as_json()
            count(run, step, row, item, lambda item=item, error=error: steps.settle(run, step, item, error=error))


def item_scope(scope: dict[str, Any], values: list[Any], item: StepRun) -> dict[str, Any]:
    return {**scope, "item": values[item.item], "index": item.item}


def mend_slots(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun) -> None:
    """Nobody is at work although items are left: their worker is gone, or a retry has become due."""
    now = timezone.now()
    at_work = items(row).filter(status=Status.RUNNING, lease_expires_at__gte=now).exists()
    due = Q(status=Status.READY) & (Q(wake_at=None) | Q(wake_at__lte=now))
    lost = Q(status=Status.RUNNING, lease_expires_at__lt=now)
    just_sent = row.lease_expires_at is not None and row.lease_expires_at > now
    retries = Q(status=Status.READY, wake_at__lte=now)
    if not at_work and items(row).filter(retries if just_sent else due | lost).exists():
        open_slots(spec, step, row)


def join(run: Run, step: StepSpec, row: StepRun) -> bool:
    """The items' outputs in their order, None where one failed, and what went wrong beside."""
    found = items(row).order_by("item").values_list("item", "status", "output", "error")
    outputs = [output if status in ("succeeded", "partial") else None for _, status, output, _ in found]
    broken = [
        {"index": place, "code": (error or {}).get("code", status), "message": (error or {}).get("message", "")}
        for place, status, _, error in found
        if status in ("failed", "cancelled")
    ]
    if not broken:
        return steps.end(run, row, Status.SUCCEEDED, output=outputs)
    message = f"{row.failed} of {row.total} items failed; the first: {broken[0]['message']}"
    error = {"code": "items_failed", "message": message, "items": broken[:ERRORS_KEPT]}
    some_went_well = step.on_error == "continue" and len(broken) < row.total
    return steps.end(run, row, Status.PARTIAL if some_went_well else Status.FAILED, output=outputs, error=error)


# -- counting --------------------------------------------------------------------------------


@transaction.atomic
def count(run: Run, step: StepSpec, row: StepRun, item: StepRun, settle: Any) -> None:
    """Settle one item and, where that ended it, count it on the step's row."""
    if settle() and item.status in ENDED:
        counted(run, step, row, done=1, failed=int(item.status == Status.FAILED))


def counted(run: Run, step: StepSpec, row: StepRun, *, done: int, failed: int) -> None:
    """Add to the step's counters; tell how far it is; after a failure that stops, leave out what has not begun."""
    if failed and step.on_error != "continue":
        now = timezone.now()
        done += items(row).filter(status=Status.READY).update(status=Status.CANCELLED, finished_at=now)
    rows = StepRun.objects.filter(pk=row.pk)
    rows.update(done=F("done") + done, failed=F("failed") + failed)
    row.done, row.failed, row.total = rows.values_list("done", "failed", "total").get()
    part = max(1, row.total // PROGRESS_STEPS)
    if row.done >= row.total or row.done // part != (row.done - done) // part:
        told = {"key": row.key, "done": row.done, "failed": row.failed, "total": row.total}
        events.record(run, "chain.progress", told)
    if row.done >= row.total:
        endings.wake(run.pk)


def recount(row: StepRun) -> None:
    """The truth from the rows, where another worker settled some of them meanwhile."""
    ended = Count("pk", filter=Q(status__in=ENDED))
    found = items(row).aggregate(done=ended, failed=Count("pk", filter=Q(status=Status.FAILED)))
    StepRun.objects.filter(pk=row.pk).update(**found)


# -- a slot of tool calls


def work_slice(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, scope: dict[str, Any]) -> None:
    """Work on items for half a second, then let others have the worker."""
    try:
        tool = steps.tool_of(run, spec, step)
        values = items_for(step, scope)
    except StepFailed as failure:
        fail_all(run, step, row, failure)
        return
    if not has_room(spec, step, row):
        return
    until, size = time.monotonic() + SLICE_S, FIRST_BATCH
    while time.monotonic() < until:
        taken = take(row, size)
        if not taken:
            return
        in_calls = work_batch(run, spec, step, row, tool, taken, {"scope": scope, "values": values})
        if in_calls < SLICE_S / 4:
            size = min(size * 2, BATCH)
        if Run.objects.filter(pk=run.pk, cancel_requested_at__isnull=False).exists():
            return
    queue.enqueue_step(row.pk)


def fail_all(run: Run, step: StepSpec, row: StepRun, failure: StepFailed) -> None:
    """The tool itself is refused: no item can succeed."""
    fields = {"status": Status.FAILED, "error": failure.as_json(), "finished_at": timezone.now()}
    with transaction.atomic():
        failed = items(row).filter(status=Status.READY).update(**fields)
        if failed:
            counted(run, step, row, done=failed, failed=failed)


def has_room(spec: ChainSpec, step: StepSpec, row: StepRun) -> bool:
    """Are fewer slots at work than may be? More of them come only when lost ones were replaced too soon."""
    now = timezone.now()
    at_work = items(row).filter(status=Status.RUNNING, lease_expires_at__gt=now).exclude(lease_owner="")
    return at_work.order_by().values("lease_owner").distinct().count() < limit_of(spec, step)


def take(row: StepRun, size: int) -> list[StepRun]:
    """Claim the next items for this slot."""
    now = timezone.now()
    due = Q(status=Status.READY) & (Q(wake_at=None) | Q(wake_at__lte=now))
    free = due | Q(status=Status.RUNNING, lease_expires_at__lte=now)
    token = f"slot:{secrets.token_hex(12)}"
    wanted = list(items(row).filter(free).order_by("item").values_list("pk", flat=True)[:size])
    until = now + timedelta(seconds=settings.LEASE_S)
    won = (
        items(row)
        .filter(free, pk__in=wanted)
        .update(
            status=Status.RUNNING, lease_owner=token, lease_expires_at=until, wake_at=None, attempt=F("attempt") + 1
        )
    )
    return list(items(row).filter(lease_owner=token).select_related("call").order_by("item")) if won else []


def work_batch(
    run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, tool: ToolSpec, taken: list[StepRun], given: dict[str, Any]
) -> float:
    """One batch from its claim to its rows. Returns the seconds spent in the calls themselves."""
    in_calls = 0.0
    with step_leases.hold(run.pk, [item.pk for item in taken]) as lease:
        desk = steps.desk_for(run, spec, step, tool, lease, kind=BatchDesk)
        pairs = resumed(desk, taken) + recorded(run, step, row, desk, tool, taken, given)
        flushed = time.monotonic()
        for item, record in pairs:
            if not record.outcome and record.waiting_for != "approval":
                began = time.monotonic()
                desk.make(record)
                in_calls += time.monotonic() - began
            desk.pairs.append((item, record))
            if time.monotonic() - flushed > FLUSH_S:
                desk.flush(run, step, row)
                flushed = time.monotonic()
        desk.flush(run, step, row)
    return in_calls


def resumed(desk: "BatchDesk", taken: list[StepRun]) -> list[tuple[StepRun, ToolCallRecord]]:
    """Items whose call was recorded earlier: it waited, or its worker vanished."""
    found = [(item, item.call) for item in taken if item.call is not None]
    for _, record in found:
        if record.outcome:
            continue
        if record.waiting_for == "approval":
            desk.follow_approval(record)
        elif record.attempt and not record.waiting_for:
            desk.after_crash(record)
    return found


def recorded(
    run: Run,
    step: StepSpec,
    row: StepRun,
    desk: "BatchDesk",
    tool: ToolSpec,
    taken: list[StepRun],
    given: dict[str, Any],
) -> list[tuple[StepRun, ToolCallRecord]]:
    """New calls of this batch: mapped, judged and written down in one transaction before the first is made."""
    requests, fresh = [], []
    for item in taken:
        if item.call is not None:
            continue
        try:
            arguments = steps.input_of(step, item, item_scope(given["scope"], given["values"], item))
        except StepFailed as failure:
            error = failure.as_json()
            count(run, step, row, item, lambda item=item, error=error: steps.settle(run, step, item, error=error))
            continue
        requests.append(steps.Request(f"{item.key}:{item.item}", tool.name, arguments))
        fresh.append(item)
    if not fresh:
        return []
    with transaction.atomic():
        records, told = desk.record(requests, turn=0)
        for item, record in zip(fresh, records, strict=True):
            item.call = record
        steps.write_rows(StepRun, fresh, ["call"])
        events.record_many(run, told)
    return list(zip(fresh, records, strict=True))


class BatchDesk(HeldDesk):
    """Results of one batch are written together; a call that takes long is written at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pairs: list[tuple[StepRun, ToolCallRecord]] = []

    def flush(self, run: Run, step: StepSpec, row: StepRun) -> None:
        """Write the results, the items they end, and the counters, in one transaction."""
        pairs, self.pairs = self.pairs, []
        if not pairs:
            return
        with transaction.atomic():
            events.record_many(run, self.write(run))
            ended = [pair for pair in pairs if is_simple(step, *pair)]
            end_simply(run, step, row, ended)
            for item, record in pairs:
                if (item, record) not in ended:
                    settle_one(run, step, row, item, record)


def is_simple(step: StepSpec, item: StepRun, record: ToolCallRecord) -> bool:
    """Does this result end the item as it is, without retry, further rounds or a schema to keep?"""
    if not record.outcome or step.repeat_until or step.output_schema:
        return False
    return record.outcome == ToolCallRecord.Outcome.OK or not may_retry(step.retry, item.attempt, record.error)


def end_simply(run: Run, step: StepSpec, row: StepRun, pairs: list[tuple[StepRun, ToolCallRecord]]) -> None:
    if not pairs:
        return
    now, failed = timezone.now(), 0
    for item, record in pairs:
        is_ok = record.outcome == ToolCallRecord.Outcome.OK
        failed += not is_ok
        item.status = Status.SUCCEEDED if is_ok else Status.FAILED
        item.output = record.result if is_ok else None
        item.error = None if is_ok else record.error or {"code": "tool_failed", "message": "the tool failed"}
        item.started_at, item.finished_at = record.started_at, now
        item.lease_expires_at = None
    rows = [item for item, _ in pairs]
    ours = StepRun.objects.filter(pk__in=[item.pk for item in rows], status=Status.RUNNING)
    still = set(ours.filter(lease_owner=rows[0].lease_owner).select_for_update().values_list("pk", flat=True))
    fields = ["status", "output", "error", "started_at", "finished_at", "lease_expires_at"]
    steps.write_rows(StepRun, [item for item in rows if item.pk in still], fields)
    if len(still) == len(rows):
        counted(run, step, row, done=len(rows), failed=failed)
    else:
        recount(row)
        counted(run, step, row, done=0, failed=0)


def settle_one(run: Run, step: StepSpec, row: StepRun, item: StepRun, record: ToolCallRecord) -> None:
    if record.outcome:
        count(run, step, row, item, lambda: steps.settle_call(run, step, item, record))
        return
    waiting = {"status": Status.WAITING, "lease_owner": "", "lease_expires_at": None}
    items(row).filter(pk=item.pk, status=Status.RUNNING).update(**waiting)
