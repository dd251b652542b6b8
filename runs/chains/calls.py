"""Steps that are tool calls: recorded before they are made, settled together with the step they end."""

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils.dateparse import parse_datetime

from agents.models import Tool
from agents.spec import ChainSpec, StepSpec
from agents.tools import ToolResult, ToolSpec
from functions.catalogue import as_pinned
from plumbing.statements import insert_rows, update_each
from registry import factory
from runs.calls import bindings, call_records, hooks, resumption
from runs.calls.executor import ToolCallExecutor
from runs.events import record as events
from runs.exceptions import LeaseLost
from runs.models import Run, StepRun, ToolCallRecord
from runs.queue.locks import hold_run
from runs.rules.plan import may_retry

from . import steps
from .steps import StepFailed

Status = StepRun.Status


@dataclass(frozen=True, slots=True)
class Request:
    """A step's call in the shape of a model's tool call."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str = ""


def find_step_tool(run: Run, spec: ChainSpec, step: StepSpec) -> ToolSpec:
    """The tool of this step, as it was approved if the step needs an approval. Raises StepFailed."""
    tool = granted_tool(run, spec, step)
    approval = steps.find_step_approval(run, step) if step.approval else None
    if approval is None:
        return tool
    approved = bindings.approved_tool(tool, approval.definition)
    if approved is None:
        raise StepFailed("definition_changed", f"“{step.target}” was changed after this step was approved")
    return approved


def granted_tool(run: Run, spec: ChainSpec, step: StepSpec) -> ToolSpec:
    """The granted tool of this step. A tool that is not granted or not usable is refused."""
    grant = next((grant for grant in spec.grants if grant.tool_id == step.target_id), None)
    row = None
    if grant is not None:
        row = Tool.objects.usable_by(run.principal).filter(pk=step.target_id).first()
    if grant is None or row is None:
        raise StepFailed("denied", f"“{step.target}” is not granted to this chain, or the run's user cannot use it.")
    tool = factory.tool_spec(row, grant)
    if step.target_version:
        tool = as_pinned(tool, step.target_version)
    # A grant without a limit of its own leaves the step's.
    granted_s = min(tool.granted_s, step.timeout_s) if tool.granted_s else step.timeout_s
    return replace(tool, deadline_s=min(tool.deadline_s, step.timeout_s), granted_s=granted_s)


def open_step_executor(run: Run, spec: ChainSpec, step: StepSpec, tool: ToolSpec, lease: Any, kind: Any = None) -> Any:
    """An executor for this one tool, with the chain's grants and the step's policy."""
    # A copy: the policy is this step's, and other steps have others.
    narrowed = copy.copy(run)
    narrowed.policy = {"chain": spec.name, **step.policy.model_dump()}
    is_cancelled = getattr(lease, "is_cancelled", None)
    hooked = hooks.load_hooks(run, agent=spec.name, is_cancelled=is_cancelled)
    executor_class = kind or HeldExecutor
    executor = executor_class(narrowed, lease, {tool.name: tool}, hooked=hooked)
    executor.read_grants()
    return executor


class HeldExecutor(ToolCallExecutor):
    """An executor whose results are written together with the step they end, in one transaction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.results: list[ToolCallRecord] = []
        # Those whose call was settled, or begun again, by another worker.
        self.late: list[ToolCallRecord] = []

    def settle(self, record: ToolCallRecord, result: ToolResult) -> None:
        if record.parent_call_id is not None:
            super().settle(record, result)  # a function's callback is written on its own
            return
        if record.pk in self.called_back:
            call_records.close_callbacks(record)
        call_records.write_result_columns(record, result)
        self.results.append(record)
        if result.keep is not None:
            result.keep()
        call_records.add_counts(self.run, result)
        call_records.copy_result_to_run(self.run, record, result)

    def write(self, run: Run) -> list[tuple[str, dict[str, Any]]]:
        """Write the held results; returns their events. Called in the transaction that ends the
        steps.
        """
        settled = self.results
        # Usually all of them are stored, and no row need be read.
        if write_call_results(settled) != len(settled):
            settled = [record for record in settled if is_stored(record)]
        self.late = [record for record in self.results if record not in settled]
        has_untrusted = any(record.untrusted for record in self.results)
        if has_untrusted:
            run.has_untrusted = True
            Run.objects.filter(pk=run.pk, has_untrusted=False).update(has_untrusted=True)
        return [("tool.finished", call_records.finished_data(record)) for record in settled]

    def put_aside(self, records: list[ToolCallRecord]) -> None:
        """Results that came too late; a person may look them up."""
        for record in records:
            call_records.keep_aside(record, ToolResult(record.outcome == "ok", record.result, record.error))


def write_call_results(records: list[ToolCallRecord]) -> int:
    """How many of these results were stored: each by the attempt that made the call, while it was open."""
    attempts = defaultdict[int, list[ToolCallRecord]](list)
    for record in records:
        attempts[record.attempt].append(record)
    return sum(
        update_each(some, call_records.SETTLED, where=call_records.still_open(some[0])) for some in attempts.values()
    )


def is_stored(record: ToolCallRecord) -> bool:
    """Is this the result that its row has?"""
    return ToolCallRecord.objects.filter(pk=record.pk, finished_at=record.finished_at).exists()


class AlreadyTaken(Exception):
    """Another worker has this row."""


def call_tool(
    run: Run,
    spec: ChainSpec,
    step: StepSpec,
    row: StepRun,
    lease: Any,
    input: dict[str, Any],
    *,
    tool: ToolSpec,
    owner: str,
    lease_s: float | None = None,
) -> None:
    """Claim the row, record its call, make it, then settle the row or let it wait. Does nothing if
    another worker has it.
    """
    executor = open_step_executor(run, spec, step, tool, lease)
    request = Request(f"{row.key}:{row.item}", tool.name, input)
    try:
        with transaction.atomic():
            [record], entries = executor.record([request], turn=0)
            started = "step.started", steps.describe_step(row, call=str(record.pk))
            # This locks the run's row, before that of its step.
            executor.tell(started, *entries)
            if not steps.claim_step(row, Status.RUNNING, owner=owner, lease_s=lease_s, call=record, input=input):
                raise AlreadyTaken
    except AlreadyTaken:
        return
    executor.perform([record])
    after_call(run, step, row, record, executor)


def resume_call(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, lease: Any) -> None:
    """Continue a call after a wait or a crash: results are kept, nothing is repeated silently."""
    record = row.call
    assert record is not None
    tool = find_step_tool(run, spec, step)
    executor = open_step_executor(run, spec, step, tool, lease)
    resumption.resume_calls(executor, [record])
    after_call(run, step, row, record, executor)


def after_call(run: Run, step: StepSpec, row: StepRun, record: ToolCallRecord, executor: HeldExecutor) -> None:
    """Write what has become of the call, and of its step. Raises LeaseLost where another worker has the run."""
    try:
        with transaction.atomic():
            # The run's row is locked before its calls and steps.
            executor.tell()
            write_end(run, step, row, record, executor)
    except LeaseLost:
        executor.put_aside(executor.results)
        raise
    executor.put_aside(executor.late)


def write_end(run: Run, step: StepSpec, row: StepRun, record: ToolCallRecord, executor: HeldExecutor) -> None:
    """The results of the call, and the step's end or wait."""
    entries = executor.write(run)
    if record in executor.late:
        return
    if record.outcome:
        settle_call(run, step, row, record, entries=entries)
        return
    if record.waiting_for:
        until = record.details.get("until")
        wake_at = parse_datetime(until) if until else None
        rows = StepRun.objects.filter(pk=row.pk, status=Status.RUNNING, attempt=row.attempt)
        rows.update(status=Status.WAITING, lease_owner="", lease_expires_at=None, wake_at=wake_at)
        steps.record_step_event(run, "step.waiting", row, waiting_for=record.waiting_for, until=until)


def settle_call(run: Run, step: StepSpec, row: StepRun, record: ToolCallRecord, *, entries: Sequence[Any] = ()) -> bool:
    error = read_call_error(record)
    output = None if error else record.result
    return steps.settle_step(run, step, row, output=output, error=error, entries=entries)


# -- at once, while nothing else of the chain is under way --------------------------------------


@dataclass(slots=True)
class Answered:
    """An answered call and the step it ends, not written yet: both go into the chain's next
    transaction.
    """

    executor: HeldExecutor
    row: StepRun

    def write(self, run: Run) -> list[events.Entry]:
        """Returns its events. May be called again if its transaction was rolled back."""
        entries: list[events.Entry] = self.executor.write(run)
        ours = {"status": Status.RUNNING, "attempt": self.row.attempt, "repeat": self.row.repeat}
        if not update_each([self.row], steps.END, where=ours):
            return entries
        return [*entries, steps.build_step_finished(self.row)]


def start_at_once(
    run: Run, executor: HeldExecutor, row: StepRun, tool: ToolSpec, input: dict[str, Any], before: Answered | None
) -> ToolCallRecord:
    """One transaction: the end of the previous call, the new row, its call, all events. Raises
    IntegrityError, LeaseLost.
    """
    request = Request(f"{row.key}:{row.item}", tool.name, input)
    with hold_run(run.pk):
        entries = before.write(run) if before else []
        [record], called = executor.record([request], turn=0)
        row.call = record
        row.input = input
        insert_rows(row)
        started = "step.started", steps.describe_step(row, call=str(record.pk))
        executor.tell(*entries, started, *called)
    return record


def answer_step(
    run: Run, step: StepSpec, row: StepRun, record: ToolCallRecord, executor: HeldExecutor
) -> Answered | None:
    """The step's end, written together with what comes next; None if the step continues, which is
    written now.
    """
    if not record.outcome or step.repeat_until:
        after_call(run, step, row, record, executor)
        return None
    call_error = read_call_error(record)
    error = call_error or steps.schema_error(step, record.result)
    if error and may_retry(step.retry, row.attempt, error):
        after_call(run, step, row, record, executor)
        return None
    status = Status.FAILED if error else Status.SUCCEEDED
    # An output that violates the schema is kept, so that people can see what is wrong with it.
    output = None if call_error else record.result
    steps.close_step(row, status, output=output, error=error)
    return Answered(executor, row)


def read_call_error(record: ToolCallRecord) -> dict[str, Any] | None:
    if record.outcome == ToolCallRecord.Outcome.OK:
        return None
    return record.error or {"code": "tool_failed", "message": "the tool failed"}
