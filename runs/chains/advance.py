"""Runs chains durably: read the rows, do what is next, release the worker. Safe to call
concurrently.

The run waits while its steps work elsewhere: agents and sub-chains in runs of their own, tool calls
and items of a for_each in `runs.execute_step`. A chain of single tool calls stays in one worker and
waits for nothing.
"""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import prefetch_related_objects

from agents import schema
from agents.mapping import MappingError
from agents.models import ChainVersion
from agents.spec import ChainSpec, StepSpec
from agents.tools import ToolSpec
from plumbing import clock
from runs.calls import bindings, call_records
from runs.events import record as events
from runs.exceptions import LeaseLost, RunEnded, RunWaits
from runs.intake import checks
from runs.models import Approval, Run, StepRun
from runs.queue import endings, wakeups
from runs.queue.leases import Lease
from runs.queue.locks import hold_run, lock_above, lock_run
from runs.rules.plan import ENDED, Plan, State, build_chain_scope, compute_chain_output, plan_steps, settle_fallbacks

from . import calls, children, fanout, scopes, steps
from .calls import Answered
from .steps import StepFailed

Status = StepRun.Status


def advance(run: Run, lease: Lease) -> None:
    """Do everything that can be done now; then the run has ended, or RunWaits says what it waits
    for. Raises RunEnded.
    """
    chain = Walk(run, lease)
    try:
        chain.go_on()
    finally:
        chain.put_down()


def has_chain_news(run: Run) -> bool:
    """Whether advance would find something to do. Checked after the run has begun to wait."""
    chain = Walk(run, None)
    chain.read()
    plan = chain.plan()
    if plan.status or plan.start or plan.skip or plan.broken:
        return True
    return bool(chain.startable()) or chain.came()


class Walk:
    """One look at a chain's rows, and the consequences."""

    def __init__(self, run: Run, lease: Lease | None) -> None:
        self.run = run
        self.lease = lease
        if not Run.chain_version.is_cached(run):
            run.chain_version = ChainVersion.everything.select_related("chain").get(pk=run.chain_version_id)
        self.spec: ChainSpec = run.chain_version.read_spec()
        self.steps: dict[str, StepSpec] = {step.key: step for step in self.spec.steps}
        self.rows: dict[str, StepRun] = {}
        self.tools: dict[Any, ToolSpec] = {}
        self.answered: Answered | None = None

    def go_on(self) -> None:
        """Turn after turn: settle what has ended, then start what may begin. Raises RunWaits, RunEnded."""
        while True:
            self.check()
            self.read()
            if self.follow():
                continue
            plan = self.plan()
            if plan.status:
                self.finish(plan)
                return
            if not self.apply(plan):
                raise RunWaits(*self.waits_for())

    def check(self) -> None:
        """Raises RunEnded if the run must not continue."""
        if self.lease is not None and self.lease.is_cancelled():
            # The reason was written by whoever cancelled it.
            self.run.refresh_from_db(fields=["cancel_reason"])
            message = endings.cancelled_error(self.run)["message"]
            raise RunEnded(Run.Status.CANCELLED, "cancelled", message)
        if self.run.deadline and clock.near() >= self.run.deadline:
            raise RunEnded(Run.Status.EXPIRED, "deadline", "the run's deadline passed")
        checks.require_shared(self.run, self.run.chain_version.chain)

    def read(self) -> None:
        """The current rows; ended ones are final and not read again."""
        # Only this worker adds rows: while none is in progress, none can have changed.
        if self.rows and not self.under_way():
            return
        ended = {key: row for key, row in self.rows.items() if row.status in ENDED}
        fresh = list(StepRun.objects.filter(run=self.run, item=-1).exclude(key__in=ended))
        waiting = [row for row in fresh if row.status in (Status.WAITING, Status.RUNNING)]
        prefetch_related_objects(waiting, "child", "call__approval", "approval_before")
        self.rows = ended
        for row in fresh:
            self.rows[row.key] = row

    # -- what ended meanwhile ---------------------------------------------------------------------------------------

    def follow(self) -> bool:
        """Settle rows whose child, approval or call has ended; True if anything changed."""
        has_moved = False
        for row in list(self.rows.values()):
            if row.status not in ENDED:
                has_moved |= self.follow_row(row)
        return has_moved

    def follow_row(self, row: StepRun) -> bool:
        step = self.steps[row.key]
        if row.status == Status.WAITING:
            return self.follow_waiting(step, row)
        if row.status != Status.RUNNING:
            return False
        # Only the step of a for_each has a total: its items have rows of their own.
        if row.total:
            return fanout.follow_items(self.run, self.spec, step, row, self.scope)
        return self.is_abandoned(row) and self.take_up(step, row)

    def follow_waiting(self, step: StepSpec, row: StepRun) -> bool:
        if row.child is not None:
            return row.child.is_done and children.settle_child(self.run, step, row)
        if row.call is not None:
            return self.follow_call(step, row)
        approval = steps.get_row_approval(row)
        return approval is not None and steps.follow_approval(self.run, step, row, approval)

    def follow_call(self, step: StepSpec, row: StepRun) -> bool:
        """A call that waited for a person, a device or a child: ask again if there may be an
        answer.
        """
        call = row.call
        assert call is not None
        if call.outcome:
            return calls.settle_call(self.run, step, row, call)
        if call.waiting_for == "approval" and call.approval.status == Approval.Status.OPEN:
            return False
        if call_records.waits_for_time(call):
            return False
        if not self.reclaim(row, Status.WAITING):
            return False
        self.resume(step, row)
        # The call may wait for something again.
        row.refresh_from_db(fields=["status"])
        return row.status != Status.WAITING

    def take_up(self, step: StepSpec, row: StepRun) -> bool:
        """The worker of this row died."""
        if not self.reclaim(row, Status.RUNNING):
            return False
        if row.call is None:
            # No call was recorded, so none was made: the step can simply begin again.
            rows = StepRun.objects.filter(pk=row.pk, status=Status.RUNNING)
            return rows.update(status=Status.READY) > 0
        self.resume(step, row)
        return True

    def resume(self, step: StepSpec, row: StepRun) -> None:
        """Go on with the call that this row records."""

        def work() -> None:
            calls.resume_call(self.run, self.spec, step, row, self.lease)

        self.guarded(step, row, work)

    def is_abandoned(self, row: StepRun) -> bool:
        """In progress with an expired lease, or under an earlier claim of the run itself."""
        if row.lease_expires_at is None:
            return row.lease_owner != self.owner
        return row.lease_expires_at < clock.now()

    @property
    def owner(self) -> str:
        return f"run:{self.run.attempt}"

    def reclaim(self, row: StepRun, before: str) -> bool:
        """Makes a row this worker's. Of two workers that saw the same row, one succeeds."""
        rows = StepRun.objects.filter(pk=row.pk, status=before, lease_owner=row.lease_owner, attempt=row.attempt)
        is_ours = rows.update(status=Status.RUNNING, lease_owner=self.owner, lease_expires_at=None) > 0
        if is_ours:
            row.status = Status.RUNNING
        return is_ours

    def came(self) -> bool:
        """Whether a child, a call or an approval has ended and no row records it yet."""
        for row in self.rows.values():
            if row.status == Status.WAITING and self.has_answer(row):
                return True
            if row.status == Status.RUNNING and row.total and fanout.has_item_news(row):
                return True
        return False

    def has_answer(self, row: StepRun) -> bool:
        """Whether the child of a waiting row has ended, or somebody has decided its approval."""
        if row.child is not None:
            return row.child.is_done
        if row.call is not None:
            return False
        approval = steps.get_row_approval(row)
        return approval is not None and approval.status != Approval.Status.OPEN

    # -- what comes next --------------------------------------------------------------------------------------------

    @property
    def states(self) -> dict[str, State]:
        return {key: scopes.build_plan_state(row) for key, row in self.rows.items()}

    @property
    def base(self) -> dict[str, Any]:
        return scopes.base(self.run)

    def plan(self) -> Plan:
        return plan_steps(self.spec, self.states, self.base)

    def scope(self) -> dict[str, Any]:
        states = self.states
        return build_chain_scope(states, settle_fallbacks(self.spec, states), self.base)

    def apply(self, plan: Plan) -> bool:
        """Write skipped and invalid steps, start the ready ones; True if anything ended at once."""
        step = self.only_call(plan)
        if step is not None and self.call_at_once(step):
            return True
        self.put_down()
        self.write(plan)
        startable = self.startable()
        # A call that nothing else could use the time of is made here, without another worker.
        inline = len(startable) == 1 and not self.under_way(except_for=startable[0])
        has_ended = bool(plan.skip or plan.broken)
        for row in startable:
            has_ended |= self.begin(row, inline=inline)
        return has_ended

    def only_call(self, plan: Plan) -> StepSpec | None:
        """The only call that can be made now, with nothing else in progress: it needs no row before
        it starts.
        """
        if len(plan.start) != 1 or plan.skip or plan.broken or self.under_way():
            return None
        step = self.steps[plan.start[0]]
        if step.target_kind != "tool" or step.for_each or step.approval:
            return None
        return step

    def call_at_once(self, step: StepSpec) -> bool:
        """False, without any change, if the general path must report why not."""
        row = StepRun(
            run=self.run, key=step.key, status=Status.RUNNING, attempt=1, lease_owner=self.owner,
            started_at=clock.near(),
        )  # fmt: skip
        try:
            input = steps.map_step_input(step, row, self.scope())
            tool = self.tool_of(step)
            executor = calls.open_step_executor(self.run, self.spec, step, tool, self.lease)
            record = calls.start_at_once(self.run, executor, row, tool, input, self.answered)
        # IntegrityError: another worker started this step.
        except (StepFailed, IntegrityError):
            return False
        self.answered = None
        self.rows[step.key] = row
        executor.perform([record])
        # For the next step, whose call is checked against it.
        if executor.run.has_untrusted:
            self.run.has_untrusted = True
        self.answered = calls.answer_step(self.run, step, row, record, executor)
        return True

    def put_down(self) -> None:
        """Write the result that is still held. Raises LeaseLost: then it is put aside."""
        held = self.answered
        if held is None:
            return
        try:
            with hold_run(self.run.pk):
                entries = held.write(self.run)
                self.tell(entries)
        except LeaseLost:
            self.answered = None
            held.executor.put_aside(held.executor.results)
            raise
        self.answered = None

    def write(self, plan: Plan) -> None:
        """New rows; of two workers the unique constraint lets one win, and both read the result."""
        fresh = self.build_rows(plan)
        if not fresh:
            return
        entries: list[events.Entry] = []
        for row in fresh:
            if row.status != Status.READY:
                entries.append(("step.finished", steps.describe_step(row, status=row.status, error=row.error)))
        try:
            with transaction.atomic():
                self.tell(entries)
                StepRun.objects.bulk_create(fresh)
        except IntegrityError:
            # Another worker wrote some of them first: insert the others and use its rows. Holding the run's row
            # first, as above, keeps two workers from waiting for each other.
            with transaction.atomic():
                self.tell([])
                StepRun.objects.bulk_create(fresh, ignore_conflicts=True)
            self.read()
            return
        for row in fresh:
            self.rows[row.key] = row

    def build_rows(self, plan: Plan) -> list[StepRun]:
        """The rows of steps that may begin, and of those that end before they began."""
        now = clock.near()
        rows = [StepRun(run=self.run, key=key) for key in plan.start]
        for key, why in plan.skip:
            error = {"code": "skipped", "message": why}
            rows.append(StepRun(run=self.run, key=key, status=Status.SKIPPED, error=error, finished_at=now))
        for key, problem in plan.broken:
            error = broken_json(key, problem)
            rows.append(StepRun(run=self.run, key=key, status=Status.FAILED, error=error, finished_at=now))
        return rows

    def tell(self, entries: list[events.Entry]) -> None:
        """Events, or none: only to hold the run's row. Raises LeaseLost where another worker has the run."""
        assert self.lease is not None
        if events.record_events_and_change(self.run, entries, where=self.lease.conditions()) is None:
            raise LeaseLost(str(self.run.pk))

    def startable(self) -> list[StepRun]:
        """Ready rows whose time has come and that are not on the queue already."""
        ready = [row for row in self.rows.values() if row.status == Status.READY]
        # Most rows have no time to wait for: then the clock need not be asked.
        is_timed = any(row.wake_at or row.lease_expires_at for row in ready)
        if not is_timed:
            return ready
        now = clock.now()
        return [row for row in ready if is_due(row.wake_at, now) and is_due(row.lease_expires_at, now)]

    def under_way(self, *, except_for: StepRun | None = None) -> bool:
        """Whether any step, except for that one, has begun and not ended."""
        others = [row for row in self.rows.values() if row is not except_for]
        return any(row.status not in ENDED for row in others)

    def begin(self, row: StepRun, *, inline: bool) -> bool:
        """Start one row; True if it ended or failed at once, so that more may follow."""
        step = self.steps[row.key]

        def work() -> bool:
            return self.begin_kind(step, row, inline=inline)

        return self.guarded(step, row, work)

    def begin_kind(self, step: StepSpec, row: StepRun, *, inline: bool) -> bool:
        if not self.is_approved(step, row):
            # A row that has an input asked before, and asks the same again.
            if step.for_each and row.input is None:
                input = fanout.preview_items(step, self.scope())
            else:
                input = steps.map_step_input(step, row, self.scope())
            steps.ask_before(self.run, step, row, input, definition=self.binding_of(step))
            return False
        if step.for_each:
            return fanout.open_items(self.run, self.spec, step, row, self.scope())
        input = steps.map_step_input(step, row, self.scope())
        if step.target_kind in children.KINDS:
            children.start_child(self.run, self.spec, step, row, input, self.scope())
            return False
        if not inline:
            send_step(self.run, row)
            return False
        calls.call_tool(self.run, self.spec, step, row, self.lease, input, tool=self.tool_of(step), owner=self.owner)
        return True

    def is_approved(self, step: StepSpec, row: StepRun) -> bool:
        """Whether the step may begin. A yes to something that was changed since is put aside."""
        if not step.approval:
            return True
        approval = steps.get_row_approval(row)
        if approval is None:
            return False
        if not self.is_same(step, approval):
            steps.forget_approval(row)
            return False
        return True

    def is_same(self, step: StepSpec, approval: Approval) -> bool:
        if step.target_kind in children.KINDS:
            return approval.definition == children.bind_step_target(step)
        tool = calls.granted_tool(self.run, self.spec, step)
        return bindings.approved_tool(tool, approval.definition) is not None

    def binding_of(self, step: StepSpec) -> dict[str, Any]:
        """What an approval of this step is for."""
        if step.target_kind in children.KINDS:
            return children.bind_step_target(step)
        tool = calls.granted_tool(self.run, self.spec, step)
        return bindings.of_tool(tool)

    def tool_of(self, step: StepSpec) -> ToolSpec:
        """Loaded once per look; its grant is checked again before every call."""
        # An approval binds the tool of one step; without it, steps share what is loaded.
        approved_step = step.key if step.approval else ""
        key = (step.target_id, step.target_version, step.timeout_s, approved_step)
        if key not in self.tools:
            self.tools[key] = calls.find_step_tool(self.run, self.spec, step)
        return self.tools[key]

    def guarded(self, step: StepSpec, row: StepRun, work: Any) -> bool:
        """A refusal is the step's failure, not the run's."""
        try:
            return bool(work())
        except StepFailed as failure:
            return self.refuse(step, row, failure)

    def refuse(self, step: StepSpec, row: StepRun, failure: StepFailed) -> bool:
        """A refusal before the start counts as an attempt, so that retries end."""
        with hold_run(self.run.pk):
            if row.status == Status.READY and not steps.claim_step(row, Status.RUNNING):
                return False
            return steps.settle_step(self.run, step, row, error=failure.as_json())

    # -- waiting and ending -----------------------------------------------------------------------------------------

    def waits_for(self) -> tuple[str, datetime | None]:
        """What the run waits for, and when to look again without a notification."""
        self.read()
        rows = [row for row in self.rows.values() if row.status not in ENDED]
        times = [row.wake_at for row in rows if row.wake_at]
        times += fanout.next_retries(self.run, rows)
        if any(row.status == Status.RUNNING or row.lease_expires_at for row in rows):
            # A worker may die: by then its lease has expired.
            times.append(clock.near() + timedelta(seconds=settings.LEASE_S + 2))
        expiries = self.list_approval_expiries(rows)
        times += expiries
        waited = [row.call.waiting_for for row in rows if row.call and row.call.waiting_for]
        if any(row.child or row.status == Status.RUNNING for row in rows):
            word = "child"
        elif waited:
            word = waited[0]
        elif expiries:
            word = "approval"
        else:
            word = "timer"
        return word, min(times, default=None)

    def list_approval_expiries(self, rows: list[StepRun]) -> list[datetime]:
        expiries: list[datetime] = []
        for row in rows:
            approval = steps.get_row_approval(row)
            if approval and row.status == Status.WAITING:
                expiries.append(approval.expires_at)
        return expiries

    def finish(self, plan: Plan) -> None:
        result = self.result(plan)
        with transaction.atomic():
            entries: list[events.Entry] = []
            if self.answered:
                # The order in which all who end runs take their locks: from the top of the tree downwards.
                lock_above(self.run, ends_below=plan.status == "failed")
                lock_run(self.run.pk)
                entries = self.answered.write(self.run)
            endings.finish_run(self.run, plan.status, lease=self.lease, entries=entries, **result)
        self.answered = None

    def result(self, plan: Plan) -> dict[str, Any]:
        """The run's output, and what is missing from it. Raises RunEnded if the output violates a schema."""
        shortfall = None
        if plan.cause:
            cause = self.rows[plan.cause].error or {}
            shortfall = {**cause, "step": plan.cause}
        if plan.status == "failed":
            return {"error": shortfall}
        try:
            output = compute_chain_output(self.spec, self.states, self.base)
        except MappingError as error:
            raise RunEnded(Run.Status.FAILED, error.code, f"the chain's output: {error}")
        self.check_output(output)
        return {"output": output, "error": shortfall}

    def check_output(self, output: Any) -> None:
        if not self.spec.output_schema:
            return
        problems = schema.validate(self.spec.output_schema, output)
        if problems:
            raise RunEnded(
                Run.Status.FAILED, "output_invalid", f"the output does not match the schema: {problems[0]['message']}"
            )


def broken_json(key: str, error: MappingError) -> dict[str, str]:
    return {"code": error.code, "message": f"`when` of step “{key}”: {error}"}


def is_due(moment: datetime | None, now: datetime) -> bool:
    return moment is None or moment <= now


def send_step(run: Run, row: StepRun) -> None:
    """Put one ready row on the queue; a mark prevents sending it again before its worker could have
    died.
    """
    ready = StepRun.objects.filter(pk=row.pk, status=Status.READY)
    until = clock.Now(settings.LEASE_S)
    wakeups.enqueue_step(run, ready, lease_expires_at=until)
