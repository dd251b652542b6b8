"""A slice of a for_each: a slot claims, calls and settles items in batches, then releases the
worker.

A batch's calls are recorded together before the first is made; results are written at most every
FLUSH_S. The batch size is learnt from the duration of the calls: one at first, so that slow calls
run in parallel. Quick calls gain nothing from many threads of one process, so most of their slots
end.
"""

import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cachetools import LRUCache, cached
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils.dateparse import parse_datetime

from agents.spec import ChainSpec, StepSpec
from agents.tools import ToolSpec
from plumbing import clock
from plumbing.statements import update_each
from runs.calls import resumption
from runs.events import record as events
from runs.exceptions import LeaseLost
from runs.models import Run, StepRun, ToolCallRecord
from runs.queue import timers
from runs.queue.leases import StepLease, hold_lease
from runs.queue.locks import hold_run
from runs.rules.plan import may_retry

from . import calls as step_calls
from . import steps
from .calls import HeldExecutor, Request, read_call_error, settle_call
from .fanout import (
    add_slots,
    add_to_counters,
    find_step_items,
    item_scope,
    items,
    read_parallel_limit,
    recount,
    settle_and_count_item,
)
from .steps import StepFailed

Status = StepRun.Status
SLICE_S = 0.5
FLUSH_S = 0.2
# Target duration of a batch.
MOMENT_S = 0.5
# The largest batch.
BATCH = 64
# The same for calls that must not be repeated: a crash leaves fewer in doubt.
UNSURE_BATCH = 8
# Kinds of tools whose calls may wait for something.
MAY_WAIT = frozenset(["device", "agent", "chain", "builtin", "connector", "mcp", "a2a"])
# What a call waits for that counts as active.
WAITS = ("device", "child", "timer", "input")
# A quicker call waits for almost nothing.
QUICK_S = 0.02
# Slots that remain in one process while calls are quick.
QUICK_SLOTS = 2
CLAIMED = ("status", "lease_owner", "lease_expires_at", "wake_at", "attempt", "call")
ENDED = ("status", "output", "error", "started_at", "finished_at", "lease_expires_at")


@dataclass(slots=True)
class Crew:
    """How many slots of this process work on one step, and the batch size that the measured durations
    allow.
    """

    most: int
    at_work: int = 0
    size: int = 1
    call_s: float | None = None
    lock: Any = field(default_factory=threading.Lock)

    def learn(self, items: int, whole_s: float, calls: list[float]) -> None:
        """Record the duration of a batch and of each call in it."""
        fitting = int(items * MOMENT_S / max(whole_s, 0.001))
        # It grows step by step: one quick batch may be a chance.
        self.size = max(1, min(self.most, self.size * 4, fitting))
        if calls:
            # The quickest ones: the others also waited for other threads.
            quarter = len(calls) // 4
            self.call_s = sorted(calls)[quarter]

    @property
    def is_quick(self) -> bool:
        if self.call_s is None:
            return False
        return self.call_s < QUICK_S

    def join(self) -> None:
        with self.lock:
            self.at_work += 1

    def leave(self) -> None:
        with self.lock:
            self.at_work -= 1

    def spare(self) -> bool:
        """End one slot if there are more than quick calls need."""
        with self.lock:
            if not self.is_quick or self.at_work <= QUICK_SLOTS:
                return False
            self.at_work -= 1
            return True


@cached(LRUCache(256), key=lambda row, tool: row.pk, lock=threading.Lock())
def get_step_crew(row: StepRun, tool: ToolSpec) -> Crew:
    """That of this step."""
    return Crew(most=choose_batch_size(tool))


def choose_batch_size(tool: ToolSpec) -> int:
    if tool.kind in MAY_WAIT:
        # Each may stop at any moment, and no more may wait than may be active.
        return 1
    return BATCH if tool.is_repeatable else UNSURE_BATCH


def work_on_slice(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, scope: dict[str, Any]) -> None:
    """Work on items for half a second, then release the worker."""
    try:
        tool = step_calls.find_step_tool(run, spec, step)
        values = find_step_items(step, scope)
    except StepFailed as failure:
        fail_all(run, step, row, failure)
        return
    others = slots_taken(row)
    limit = read_parallel_limit(spec, step)
    if others >= limit:
        return
    slot = Slot(run, spec, step, row, tool, {"scope": scope, "values": values})
    if not slot.work():
        return
    # Slots that ended while calls were quick are needed again when they are slow.
    needs_another = not slot.crew.is_quick and others + 1 < limit
    add_slots(run, row, 2 if needs_another else 1)


def fail_all(run: Run, step: StepSpec, row: StepRun, failure: StepFailed) -> None:
    """The tool itself is refused: no item can succeed."""
    fields = {"status": Status.FAILED, "error": failure.as_json(), "finished_at": clock.near()}
    with hold_run(run.pk):
        failed = items(row).filter(status=Status.READY).update(**fields)
        if failed:
            add_to_counters(run, step, row, done=failed, failed=failed)


def slots_taken(row: StepRun) -> int:
    """The number of slots that hold items now. More may be queued than allowed if lost ones were
    replaced too soon.
    """
    at_work = items(row).filter(status=Status.RUNNING, lease_expires_at__gt=clock.Now())
    owners = at_work.exclude(lease_owner="").order_by().values("lease_owner").distinct()
    return owners.count()


class Slot:
    """One slot's turn at a step."""

    def __init__(
        self, run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, tool: ToolSpec, input: dict[str, Any]
    ) -> None:
        self.run = run
        self.spec = spec
        self.step = step
        self.row = row
        self.tool = tool
        self.given = input
        self.crew = get_step_crew(row, tool)

    def work(self) -> bool:
        """Batch after batch; True if the time is up and items may remain."""
        until = time.monotonic() + SLICE_S
        has_left = False
        self.crew.join()
        try:
            with hold_lease(StepLease(self.run)) as lease:
                while self.batch(lease) and not lease.is_cancelled():
                    has_left = self.crew.spare()
                    if has_left:
                        return False
                    if time.monotonic() >= until:
                        return True
                return False
        finally:
            # A spared slot has left already.
            if not has_left:
                self.crew.leave()

    def batch(self, lease: StepLease) -> bool:
        """One batch from its claim to its rows. False: nothing was left."""
        began = flushed = time.monotonic()
        executor = step_calls.open_step_executor(self.run, self.spec, self.step, self.tool, lease, kind=BatchExecutor)
        count = self.claim_and_record(executor, lease)
        calls = []
        for item, record in self.pairs:
            if not record.outcome and record.waiting_for != "approval":
                before = time.monotonic()
                executor.make(record)
                calls.append(time.monotonic() - before)
            executor.pairs.append((item, record))
            if time.monotonic() - flushed > FLUSH_S:
                executor.flush(self.run, self.step, self.row)
                flushed = time.monotonic()
        executor.flush(self.run, self.step, self.row)
        self.crew.learn(count, time.monotonic() - began, calls)
        return count > 0

    # -- taking ---------------------------------------------------------------------------------------------------

    @transaction.atomic
    def claim_and_record(self, executor: "BatchExecutor", lease: StepLease) -> int:
        """Take the next items; their calls are mapped, checked and recorded before the first is
        made.
        """
        # The run's row is locked before its calls and steps.
        executor.tell()
        batch = self.claim()
        lease.pks = [str(item.pk) for item in batch]
        lease.owner = batch[0].lease_owner if batch else ""
        resumed = self.resume(executor, [item for item in batch if item.call is not None])
        fresh, requests, broken = self.mapped([item for item in batch if item.call is None])
        records, entries = executor.record(requests, turn=0) if requests else ([], [])
        recorded = list(zip(fresh, records, strict=True))
        for item, record in recorded:
            item.call = record
        update_each(batch, CLAIMED)
        events.record_many(self.run, entries)
        for item, error in broken:
            settle = partial(steps.settle_step, self.run, self.step, item, error=error)
            settle_and_count_item(self.run, self.step, self.row, item, settle)
        self.pairs = resumed + recorded
        return len(batch)

    def claim(self) -> list[StepRun]:
        """The next rows, locked by this transaction; `update_each` writes the values set here."""
        is_due = Q(status=Status.READY) & (Q(wake_at=None) | Q(wake_at__lte=clock.Now()))
        is_abandoned = Q(status=Status.RUNNING, lease_expires_at__lte=clock.Now())
        rows = (
            items(self.row)
            .annotate(until=clock.Now(settings.LEASE_S))
            .filter(is_due | is_abandoned)
            .order_by("item")
            .select_for_update(skip_locked=True, of=("self",))
        )
        room = self.room()
        batch = list(rows.select_related("call")[:room])
        token = f"slot:{secrets.token_hex(12)}"
        for item in batch:
            item.status = Status.RUNNING
            item.lease_owner = token
            item.lease_expires_at = item.until
            item.wake_at = None
            item.attempt += 1
        return batch

    def room(self) -> int:
        """The number of items to take: those that wait for something other than an approval count as
        active.
        """
        if self.tool.kind not in MAY_WAIT:
            return self.crew.size
        waiting = items(self.row).filter(status=Status.WAITING, call__waiting_for__in=WAITS).count()
        free = read_parallel_limit(self.spec, self.step) - waiting
        return min(self.crew.size, max(0, free))

    def resume(self, executor: "BatchExecutor", rows: list[StepRun]) -> list[tuple[StepRun, ToolCallRecord]]:
        """The items whose call was recorded earlier, because it waited or its worker died."""
        for item in rows:
            resumption.resume_call(executor, item.call)
        return [(item, item.call) for item in rows]

    def mapped(self, rows: list[StepRun]) -> tuple[list[StepRun], list[Request], list[tuple[StepRun, dict]]]:
        """(items, their requests, items whose mapping failed with the error)."""
        fresh, requests, broken = [], [], []
        for item in rows:
            try:
                scope = item_scope(self.given["scope"], self.given["values"], item)
                arguments = steps.map_step_input(self.step, item, scope)
            except StepFailed as failure:
                broken.append((item, failure.as_json()))
                continue
            requests.append(Request(f"{item.key}:{item.item}", self.tool.name, arguments))
            fresh.append(item)
        return fresh, requests, broken


class BatchExecutor(HeldExecutor):
    """Results of one batch are written together; a slow call's result is written at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pairs: list[tuple[StepRun, ToolCallRecord]] = []

    def flush(self, run: Run, step: StepSpec, row: StepRun) -> None:
        """Write the results, the items they end, and the counters in one transaction."""
        pairs = self.pairs
        self.pairs = []
        if not pairs:
            return
        try:
            with transaction.atomic():
                # The run's row is locked before its calls and steps.
                self.tell()
                self.write_ends(run, step, row, pairs)
        except LeaseLost:
            self.put_aside(self.results)
            raise
        self.put_aside(self.late)
        self.results = []

    def write_ends(self, run: Run, step: StepSpec, row: StepRun, pairs: list[tuple[StepRun, ToolCallRecord]]) -> None:
        entries = self.write(run)
        simple: list[tuple[StepRun, ToolCallRecord]] = []
        others: list[tuple[StepRun, ToolCallRecord]] = []
        for item, record in pairs:
            if record in self.late:
                continue
            if is_simple(step, item, record):
                simple.append((item, record))
            else:
                others.append((item, record))
        end_simply(run, step, row, simple, entries)
        for item, record in others:
            settle_one(run, step, row, item, record)


def is_simple(step: StepSpec, item: StepRun, record: ToolCallRecord) -> bool:
    """Whether this result ends the item directly, without retry, further rounds or a schema check."""
    if not record.outcome or step.repeat_until or step.output_schema:
        return False
    if record.outcome == ToolCallRecord.Outcome.OK:
        return True
    return not may_retry(step.retry, item.attempt, record.error)


def end_simply(
    run: Run, step: StepSpec, row: StepRun, pairs: list[tuple[StepRun, ToolCallRecord]], entries: list[events.Entry]
) -> None:
    """Writes the ends of many items with one statement."""
    if not pairs:
        events.record_many(run, entries)
        return
    now = clock.near()
    failed = 0
    for item, record in pairs:
        error = read_call_error(record)
        if error is None:
            item.status = Status.SUCCEEDED
            item.output = record.result
        else:
            failed += 1
            item.status = Status.FAILED
            item.output = None
        item.error = error
        item.started_at = record.started_at
        item.finished_at = now
        item.lease_expires_at = None
    rows = [item for item, _ in pairs]
    ours = {"status": Status.RUNNING, "lease_owner": rows[0].lease_owner}
    if update_each(rows, ENDED, where=ours) == len(rows):
        add_to_counters(run, step, row, done=len(rows), failed=failed, entries=entries)
    else:
        # Another worker took some of them.
        recount(row)
        add_to_counters(run, step, row, done=0, failed=0, entries=entries)


def settle_one(run: Run, step: StepSpec, row: StepRun, item: StepRun, record: ToolCallRecord) -> None:
    """Ends an item with retry, rounds or a schema check, or lets it wait with its call."""
    if record.outcome:
        settle_and_count_item(run, step, row, item, partial(settle_call, run, step, item, record))
        return
    wake_at = None
    if record.waiting_for in ("timer", "input") and record.details.get("until"):
        wake_at = parse_datetime(record.details["until"])
    waiting = {"status": Status.WAITING, "lease_owner": "", "lease_expires_at": None, "wake_at": wake_at}
    items(row).filter(pk=item.pk, status=Status.RUNNING).update(**waiting)
    if wake_at:
        timers.bring_forward(run, wake_at)
