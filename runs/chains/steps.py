"""One step of a chain: started, called, settled, retried. Every write is conditional, so of two
workers one wins.

A StepRun is `ready` (possibly not before `wake_at`), `running` (a tool call in a worker), `waiting`
(for a child, a person, a device) or ended. `item` is -1 for the step itself; the items of a
for_each have rows of their own.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from agents import schema
from agents.mapping import MappingError, holds, map_input
from agents.spec import ContextSource, StepSpec
from plumbing import clock
from runs.events import record as events
from runs.models import Approval, Run, StepRun
from runs.queue import timers
from runs.queue.locks import hold_run, lock_run
from runs.rules.plan import backoff_s, may_retry

Status = StepRun.Status
OPEN = (Status.READY, Status.RUNNING, Status.WAITING)
END = ("status", "output", "error", "finished_at", "wake_at", "lease_owner", "lease_expires_at")


class StepFailed(Exception):
    """This attempt of the step failed; `code` decides whether it is retried."""

    def __init__(self, code: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    def as_json(self) -> dict[str, Any]:
        error = {"code": self.code, "message": str(self)}
        if self.details:
            error["details"] = self.details
        return error


def map_step_input(step: StepSpec, row: StepRun, scope: dict[str, Any]) -> dict[str, Any]:
    """The mapped input; a row that has one keeps it (another attempt, or a person's edit). Raises
    StepFailed.
    """
    if row.input is not None:
        return row.input
    return map_step_values(step, "input", step.input, with_round(scope, row))


def map_step_options(step: StepSpec, row: StepRun, scope: dict[str, Any]) -> dict[str, Any]:
    """The options of its agent's run (runs/intake/options.py). Raises StepFailed."""
    options: dict[str, Any] = {}
    if step.model:
        options["model"] = step.model
    if step.instructions:
        options["instructions"] = step.instructions
    if step.variables:
        variables = map_step_values(step, "variables", step.variables, with_round(scope, row))
        if variables:
            options["variables"] = variables
    return options


def map_step_context(run: Run, step: StepSpec, row: StepRun, scope: dict[str, Any]) -> list[dict[str, Any]]:
    """The texts for the instructions of its agent's run (runs/intake/context.py). Raises StepFailed."""
    own_scope = with_round(scope, row)
    return [map_context_source(run, step, source, own_scope) for source in step.context]


def map_context_source(run: Run, step: StepSpec, source: ContextSource, scope: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"source": source.source, "last": source.last}
    if source.step:
        entry["id"] = find_step_session(run, source.step)
    elif source.id:
        entry.update(map_step_values(step, "context", {"id": source.id}, scope))
    return entry


def find_step_session(run: Run, key: str) -> str:
    """The session of an ended step. Raises StepFailed where it has none: it was skipped, say."""
    rows = StepRun.objects.filter(run=run, key=key, item=-1).values_list("child__session_id", flat=True)
    session = rows.first()
    if session is None:
        raise StepFailed("unknown_session", f"step “{key}” has no session that this step could read")
    return str(session)


def map_step_values(step: StepSpec, what: str, mapping: dict[str, Any], scope: dict[str, Any]) -> dict[str, Any]:
    try:
        return map_input(mapping, scope)
    except MappingError as error:
        details = {"hint": error.hint} if error.hint else None
        raise StepFailed(error.code, f"{what} of step “{step.key}”: {error}", details)


def with_round(scope: dict[str, Any], row: StepRun) -> dict[str, Any]:
    """Adds what a step that repeats knows of its earlier rounds."""
    return {**scope, "round": row.repeat, "previous": row.output}


# -- approval before a step ----------------------------------------------------------------


def ask_before(run: Run, step: StepSpec, row: StepRun, input: dict[str, Any], *, definition: dict[str, Any]) -> None:
    """Create the approval; the row waits. `definition` is what the step would start now."""
    until = clock.near() + timedelta(seconds=step.approval_expires_s)
    with hold_run(run.pk):
        if not claim_step(row, Status.WAITING, attempt=False):
            return
        approval = Approval.objects.create(
            run=run,
            step=row,
            tool=step.target or step.target_kind,
            reason=f"step “{step.key}” needs approval before it starts",
            arguments=input,
            definition=definition,
            expires_at=until,
            default=settings.APPROVAL_DEFAULT,
        )
        # What was approved is what the step gets, even if its scope changes until then.
        StepRun.objects.filter(pk=row.pk).update(input=input)
        waiting = describe_step(row, waiting_for="approval")
        question = {
            "id": str(approval.pk),
            "call": None,
            "step": row.key,
            "tool": approval.tool,
            "arguments": input,
            "reason": approval.reason,
            "expires_at": events.format_moment(approval.expires_at),
            "default": approval.default,
        }
        events.record_many(run, [("step.waiting", waiting), ("approval.requested", question)])


def follow_approval(run: Run, step: StepSpec, row: StepRun, approval: Approval) -> bool:
    """Start what was approved, with its edits; end what was denied. False while the approval is
    open.
    """
    if approval.status == Approval.Status.OPEN:
        return False
    if approval.status == Approval.Status.APPROVED:
        fields: dict[str, Any] = {"status": Status.READY, "wake_at": None}
        if approval.edited_arguments is not None:
            fields["input"] = approval.edited_arguments
        StepRun.objects.filter(pk=row.pk, status=Status.WAITING).update(**fields)
        return True
    if approval.status == Approval.Status.EXPIRED:
        code = "approval_expired"
        message = "nobody answered in time"
    else:
        code = "approval_denied"
        message = "a person denied it"
    if approval.note:
        message = f"{message}: {approval.note}"
    return settle_step(run, step, row, error={"code": code, "message": message})


def get_row_approval(row: StepRun) -> Approval | None:
    return getattr(row, "approval_before", None)


def find_step_approval(run: Run, step: StepSpec) -> Approval | None:
    """The approval of the whole step, which counts for each of its items."""
    return Approval.objects.filter(step__run=run, step__key=step.key, step__item=-1).first()


def forget_approval(row: StepRun) -> None:
    """It stays in the list of approvals, and the step asks again."""
    Approval.objects.filter(step=row).update(step=None)
    row._state.fields_cache.pop("approval_before", None)


# -- claiming and settling ------------------------------------------------------------------


def claim_step(
    row: StepRun, status: str, *, owner: str = "", lease_s: float | None = None, attempt: bool = True, **more: Any
) -> bool:
    """Take a ready row; of two workers one wins. Without `lease_s` the run's own lease covers it."""
    # A lease is compared with the database's clock, by other workers.
    now = clock.now() if lease_s else clock.near()
    lease_expires_at = now + timedelta(seconds=lease_s) if lease_s else None
    # A question to a person, for one, is no attempt.
    counted = 1 if attempt else 0
    fields: dict[str, Any] = {
        "status": status,
        "wake_at": None,
        "lease_owner": owner,
        "lease_expires_at": lease_expires_at,
        "started_at": row.started_at or now,
        **more,
    }
    rows = StepRun.objects.filter(pk=row.pk, status=Status.READY, attempt=row.attempt, repeat=row.repeat)
    if not rows.update(**fields, attempt=F("attempt") + counted):
        return False
    row.attempt += counted
    for name, value in fields.items():
        setattr(row, name, value)
    return True


@transaction.atomic
def settle_step(
    run: Run,
    step: StepSpec,
    row: StepRun,
    *,
    output: Any = None,
    error: dict[str, Any] | None = None,
    shortfall: dict[str, Any] | None = None,
    entries: Sequence[Any] = (),
) -> bool:
    """End this attempt: retry later, repeat, or end the row. False if it was settled already.

    `shortfall` says what is missing from an output: the row ends as partial. `entries` are events that
    come first.
    """
    lock_run(run.pk)
    error = error or schema_error(step, output)
    if error is None and step.repeat_until:
        again, error = another_round(step, row, output, run)
        if again:
            events.record_many(run, entries)
            return next_round(run, step, row, output)
    if error and may_retry(step.retry, row.attempt, error):
        wake_at = clock.now() + timedelta(seconds=backoff_s(step.retry, row.attempt))
        events.record_many(run, entries)
        return put_back(run, row, wake_at=wake_at, error=error)
    if error:
        # The output of an earlier round stays, if this one has none.
        last_output = row.output if output is None else output
        return end_step(run, row, Status.FAILED, output=last_output, error=error, entries=entries)
    status = Status.PARTIAL if shortfall else Status.SUCCEEDED
    return end_step(run, row, status, output=output, error=shortfall, entries=entries)


def end_step(
    run: Run,
    row: StepRun,
    status: str,
    *,
    output: Any = None,
    error: dict[str, Any] | None = None,
    entries: Sequence[Any] = (),
) -> bool:
    """Write the end of a row once; False if it had ended already."""
    rows = open_rows(row)
    before = {name: getattr(row, name) for name in END}
    close_step(row, status, output=output, error=error)
    columns = {name: getattr(row, name) for name in END}
    if not rows.update(**columns):
        for name, value in before.items():
            setattr(row, name, value)
        events.record_many(run, entries)
        return False
    recorded = list(entries)
    # The end of an item is counted in chain.progress instead.
    if row.item < 0:
        recorded.append(build_step_finished(row))
    events.record_many(run, recorded)
    return True


def close_step(row: StepRun, status: str, *, output: Any, error: dict[str, Any] | None) -> None:
    """Set the columns END on the row, without saving it."""
    row.status = status
    row.output = output
    row.error = error
    row.finished_at = clock.near()
    row.wake_at = None
    row.lease_owner = ""
    row.lease_expires_at = None


def build_step_finished(row: StepRun) -> events.Entry:
    data = describe_step(row, status=row.status, error=row.error, wall_ms=wall_ms(row))
    return "step.finished", data


def open_rows(row: StepRun) -> Any:
    """The row, while this attempt of this round has not ended: of two workers, one changes it."""
    return StepRun.objects.filter(pk=row.pk, status__in=OPEN, attempt=row.attempt, repeat=row.repeat)


def schema_error(step: StepSpec, output: Any) -> dict[str, Any] | None:
    if not step.output_schema:
        return None
    problems = schema.validate(step.output_schema, output)
    if not problems:
        return None
    return {
        "code": "output_invalid",
        "message": f"the output does not match the step's schema: {problems[0]['path']} {problems[0]['message']}",
    }


def another_round(step: StepSpec, row: StepRun, output: Any, run: Run) -> tuple[bool, dict[str, Any] | None]:
    """(again, error): whether repeat_until is still false and another round is allowed."""
    condition = step.repeat_until.condition
    limit = step.repeat_until.limit
    scope = {"output": output, "previous": row.output, "round": row.repeat, "input": run.input}
    try:
        is_enough = holds(condition, scope)
    except MappingError as error:
        return False, {"code": error.code, "message": f"repeat_until: {error}"}
    if is_enough:
        return False, None
    if row.repeat + 1 < limit:
        return True, None
    return False, {"code": "repeat_limit", "message": f"`{condition}` was still false after {limit} rounds"}


def next_round(run: Run, step: StepSpec, row: StepRun, output: Any) -> bool:
    """The row is ready again with a new input. An approval was for the input shown then, not for
    another round.
    """
    done = put_back(run, row, wake_at=None, output=output, repeat=row.repeat + 1, input=None, attempt=0)
    if done and step.approval and row.item < 0:
        forget_approval(row)
    return done


def put_back(run: Run, row: StepRun, *, wake_at: Any, **fields: Any) -> bool:
    """The row is ready again, now or at `wake_at`; its call and child remain in their own records."""
    fields = {"status": Status.READY, "wake_at": wake_at, **fields}
    rows = open_rows(row)
    if not rows.update(child=None, call=None, lease_owner="", lease_expires_at=None, **fields):
        return False
    for name, value in fields.items():
        setattr(row, name, value)
    if not wake_at:
        return True
    if row.item >= 0:
        # The step waits for its items: it must look again when this one is due.
        timers.bring_forward(run, wake_at)
    else:
        until = events.format_moment(wake_at)
        record_step_event(run, "step.waiting", row, until=until, attempt=row.attempt, error=fields.get("error"))
    return True


def wall_ms(row: StepRun) -> float | None:
    if row.started_at is None or row.finished_at is None:
        return None
    return (row.finished_at - row.started_at).total_seconds() * 1000


def describe_step(row: StepRun, **more: Any) -> dict[str, Any]:
    return {"step": str(row.pk), "key": row.key, "item": row.item, **more}


def record_step_event(run: Run, type: str, row: StepRun, **more: Any) -> None:
    data = describe_step(row, **more)
    events.record_event(run, type, data)
