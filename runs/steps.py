"""One step of a chain: started, called, settled, tried again. Every write is conditional: of two workers one wins.

A StepRun is `ready` (perhaps not before `wake_at`), `running` (a tool call in some worker), `waiting` (for a child, a
person, a device) or ended. `item` is -1 for the step itself; the items of a for_each have rows of their own.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from agents import schema
from agents.mapping import MappingError, holds, map_input
from agents.models import Agent, Chain, Tool
from agents.spec import ChainSpec, StepSpec
from agents.tools import OutcomeUnknown, ToolFailed, ToolResult, ToolSpec
from registry import factory, router

from . import calls, chain_runs, children, events
from .calls import Desk
from .models import Approval, Run, StepRun, ToolCallRecord
from .plan import backoff_s, may_retry

Status = StepRun.Status
OPEN = (Status.READY, Status.RUNNING, Status.WAITING)
KINDS_WITH_CHILD = frozenset(["agent", "chain", "router"])


class StepFailed(Exception):
    """This attempt of the step failed; `code` decides whether another could help."""

    def __init__(self, code: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    def as_json(self) -> dict[str, Any]:
        error = {"code": self.code, "message": str(self)}
        return error | {"details": self.details} if self.details else error


@dataclass(frozen=True, slots=True)
class Request:
    """What a step asks of the desk; shaped like a model's tool call."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str = ""


def input_of(step: StepSpec, row: StepRun, scope: dict[str, Any]) -> dict[str, Any]:
    """The mapped input; a row that has one keeps it (another attempt, or a person's edit). Raises StepFailed."""
    if row.input is not None:
        return row.input
    try:
        return map_input(step.input, with_round(scope, row))
    except MappingError as error:
        raise StepFailed(
            error.code, f"input of step “{step.key}”: {error}", {"hint": error.hint} if error.hint else None
        )


def with_round(scope: dict[str, Any], row: StepRun) -> dict[str, Any]:
    return {**scope, "round": row.repeat, "previous": row.output}


# -- children --------------------------------------------------------------------------------


def start_child(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, given: dict[str, Any]) -> bool:
    """The agent's or chain's run and the row that waits for it, in one transaction. False: another was first."""
    if step.target_kind == "chain":
        start = chain_starter(run, step, given)
    else:
        start = agent_starter(run, spec, step, given)
    try:
        with transaction.atomic():
            if not claim(row, Status.WAITING):
                return False
            row.child = start()
            StepRun.objects.filter(pk=row.pk).update(child=row.child, input=given)
            tell(run, "step.started", row, child=str(row.child.pk))
    except ToolFailed as error:
        raise StepFailed(error.code, str(error), error.details)
    return True


def agent_starter(run: Run, spec: ChainSpec, step: StepSpec, given: dict[str, Any]) -> Any:
    agent, version = agent_of(run, step, given)
    rest = {name: value for name, value in given.items() if name not in ("message", "sources", "allowed_tools")}
    policy = {
        "step": step.key,
        "chain": spec.name,
        "allowed": narrowed(step.policy.allowed, given.get("allowed_tools")),
        "blocked": step.policy.blocked,
        "max_turns": step.max_turns,
        "output_schema": step.output_schema,
    }
    return lambda: children.start_child(
        run,
        agent,
        text=message_of(given),
        input=rest or None,
        version=version,
        policy=policy,
        sources=given.get("sources"),
        timeout_s=step.timeout_s,
        trigger=Run.Trigger.CHAIN,
    )


def narrowed(allowed: list[str] | None, asked: Any) -> list[str] | None:
    """An input `allowed_tools` narrows what the step allows, for a choice that is made when the chain is started."""
    if asked is None:
        return allowed
    names = [name for name in asked if isinstance(name, str)] if isinstance(asked, list) else []
    return [name for name in names if allowed is None or name in allowed]


def message_of(given: dict[str, Any]) -> str:
    message = given.get("message", "")
    return message if isinstance(message, str) else schema.canonical_json(message)


def agent_of(run: Run, step: StepSpec, given: dict[str, Any]) -> tuple[Agent, Any]:
    """The agent of this step and the version to run; the principal must be able to see it."""
    if step.target_kind == "router":
        route = router.route(run.principal, message_of(given))
        if route.agent is None:
            raise StepFailed("nobody_fits", route.reason or "no agent fits this message")
        return route.agent, route.agent.published
    agent = (
        Agent.objects.select_related("published", "provider")
        .visible_to(run.principal)
        .filter(pk=step.target_id)
        .first()
    )
    if agent is None:
        raise StepFailed("target_not_visible", f"There is no agent “{step.target}” that the run's person can see.")
    version = agent.published
    if step.target_version:
        version = agent.versions.filter(number=step.target_version).first()
    if version is None or not agent.enabled:
        raise StepFailed("not_published", f"Agent “{agent.name}” has no published version, or is switched off.")
    return agent, version


def chain_starter(run: Run, step: StepSpec, given: dict[str, Any]) -> Any:
    chain = Chain.objects.select_related("published").visible_to(run.principal).filter(pk=step.target_id).first()
    if chain is None:
        raise StepFailed("target_not_visible", f"There is no chain “{step.target}” that the run's person can see.")
    version = chain.published
    if step.target_version:
        version = chain.versions.filter(number=step.target_version).first()
    if version is None or not chain.enabled:
        raise StepFailed("not_published", f"Chain “{chain.name}” has no published version, or is switched off.")
    if chain_runs.nesting(run) > run.chain_version.read_spec().max_chain_depth:
        raise StepFailed("too_deep", f"Chain “{chain.name}” would nest deeper than this chain allows.")
    return lambda: chain_runs.create_child(run, version, given, timeout_s=step.timeout_s)


def child_result(child: Run) -> tuple[Any, dict[str, Any] | None]:
    """(output, error) of a child that has ended: its output, else the text of its reply."""
    if child.status in (Run.Status.SUCCEEDED, Run.Status.PARTIAL):
        output = child.output
        return (children.reply_text(child) if output is None and child.agent_id else output), None
    error = child.error or {}
    code = "timeout" if child.status == Run.Status.EXPIRED else error.get("code") or f"child_{child.status}"
    message = error.get("message") or f"the run ended {child.status}"
    return None, {"code": code, "message": message, "run": str(child.pk)}


def settle_child(run: Run, step: StepSpec, row: StepRun) -> bool:
    assert row.child is not None
    output, error = child_result(row.child)
    if row.child.has_untrusted and not run.has_untrusted:
        run.has_untrusted = True
        Run.objects.filter(pk=run.pk).update(has_untrusted=True)
    return settle(run, step, row, output=output, error=error)


# -- tools --------------------------------------------------------------------------------


def tool_of(run: Run, spec: ChainSpec, step: StepSpec) -> ToolSpec:
    """The granted tool this step calls. What is not granted or not visible is refused."""
    grant = next((grant for grant in spec.grants if grant.tool_id == step.target_id), None)
    row = Tool.objects.visible_to(run.principal).filter(pk=step.target_id).first() if grant else None
    if grant is None or row is None:
        raise StepFailed("denied", f"“{step.target}” is not granted to this chain, or the run's person cannot see it.")
    tool = factory.tool_spec(row, grant)
    return replace(
        tool,
        deadline_s=min(tool.deadline_s, step.timeout_s),
        pinned_version=step.target_version or tool.pinned_version,
    )


def desk_for(run: Run, spec: ChainSpec, step: StepSpec, tool: ToolSpec, lease: Any, kind: Any = None) -> Any:
    """The desk judges this one tool under the chain's grants and the step's policy."""
    narrowed = copy.copy(run)
    narrowed.policy = {"chain": spec.name, "allowed": step.policy.allowed, "blocked": step.policy.blocked}
    desk = (kind or HeldDesk)(narrowed, lease, {tool.name: tool})
    desk.read_grants()
    return desk


class HeldDesk(Desk):
    """A desk whose results are written together with the step they end: one transaction, not two."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.results: list[ToolCallRecord] = []

    def settle(self, record: ToolCallRecord, result: ToolResult) -> None:
        if record.parent_call_id is not None:
            super().settle(record, result)  # a function's callback stands for itself
            return
        unknown = not result.ok and (result.error or {}).get("code") == OutcomeUnknown.code
        known = ToolCallRecord.Outcome.OK if result.ok else ToolCallRecord.Outcome.FAILED
        outcome = ToolCallRecord.Outcome.UNKNOWN if unknown else known
        calls.close(record, outcome, result=result.value, error=result.error, printed=result.printed)
        record.untrusted = result.untrusted
        record.details = {**record.details, **result.details}
        self.results.append(record)
        self.run.has_untrusted = self.run.has_untrusted or result.untrusted
        if result.counts:
            self.add_counts(result.counts)

    def write(self, run: Run) -> list[tuple[str, dict[str, Any]]]:
        """Write what was held; the events that tell of it. Called in the transaction that ends the steps."""
        results, self.results = self.results, []
        if len(results) == 1:
            results[0].save(update_fields=calls.SETTLED)
        elif results:
            write_rows(ToolCallRecord, results, [*calls.SETTLED])
        if self.run.has_untrusted and not run.has_untrusted:
            run.has_untrusted = True
            Run.objects.filter(pk=run.pk).update(has_untrusted=True)
        return [("tool.finished", calls.finished_data(record)) for record in results]


def write_rows(model: Any, rows: list[Any], fields: list[str]) -> None:
    """Update these columns of rows that are there: one upsert, a third of the cost of bulk_update's CASE per column."""
    if rows:
        model.objects.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=fields)


class AlreadyTaken(Exception):
    """Another worker has this row."""


def call_tool(
    run: Run,
    spec: ChainSpec,
    step: StepSpec,
    row: StepRun,
    lease: Any,
    given: dict[str, Any],
    *,
    tool: ToolSpec,
    owner: str,
    lease_s: float | None = None,
) -> None:
    """Claim the row, record its call, make it, then settle the row or let it wait. Nothing where another has it."""
    desk = desk_for(run, spec, step, tool, lease)
    try:
        with transaction.atomic():
            [record], told = desk.record([Request(f"{row.key}:{row.item}", tool.name, given)], turn=0)
            if not claim(row, Status.RUNNING, owner=owner, lease_s=lease_s, call=record, input=given):
                raise AlreadyTaken
            events.record_many(run, [("step.started", told_of(row, call=str(record.pk))), *told])
    except AlreadyTaken:
        return
    desk.perform([record])
    after_call(run, step, row, record, desk)


def resume_call(run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, lease: Any) -> None:
    """Go on with a call after a wait or a crash: what was answered stays, nothing is repeated silently."""
    record = row.call
    assert record is not None
    desk = desk_for(run, spec, step, tool_of(run, spec, step), lease)
    desk.resume([record])
    after_call(run, step, row, record, desk)


@transaction.atomic
def after_call(run: Run, step: StepSpec, row: StepRun, record: ToolCallRecord, desk: HeldDesk) -> None:
    told = desk.write(run)
    if record.outcome:
        settle_call(run, step, row, record, told=told)
    elif record.waiting_for:
        until = record.details.get("until")
        StepRun.objects.filter(pk=row.pk, status=Status.RUNNING, attempt=row.attempt).update(
            status=Status.WAITING,
            lease_owner="",
            lease_expires_at=None,
            wake_at=parse_datetime(until) if until else None,
        )
        tell(run, "step.waiting", row, waiting_for=record.waiting_for, until=until)


def settle_call(run: Run, step: StepSpec, row: StepRun, record: ToolCallRecord, *, told: Sequence[Any] = ()) -> bool:
    if record.outcome == ToolCallRecord.Outcome.OK:
        return settle(run, step, row, output=record.result, told=told)
    error = record.error or {"code": "tool_failed", "message": "the tool failed"}
    return settle(run, step, row, error=error, told=told)


# -- approval before a step


def ask_before(run: Run, step: StepSpec, row: StepRun, given: dict[str, Any]) -> None:
    """Put the question to the run's person; the row waits."""
    until = timezone.now() + timedelta(seconds=step.approval_expires_s)
    with transaction.atomic():
        if not claim(row, Status.WAITING, attempt=False):
            return
        approval = Approval.objects.create(
            run=run,
            step=row,
            tool=step.target or step.target_kind,
            reason=f"step “{step.key}” asks before it starts",
            arguments=given,
            expires_at=min(filter(None, [until, run.deadline])),
            default=settings.APPROVAL_DEFAULT,
        )
        StepRun.objects.filter(pk=row.pk).update(input=given)
        asked = {
            "id": str(approval.pk), "call": None, "step": row.key, "tool": approval.tool, "arguments": given,
            "reason": approval.reason, "expires_at": events.rfc3339(approval.expires_at), "default": approval.default,
        }  # fmt: skip
        events.record_many(run, [("step.waiting", told_of(row, waiting_for="approval")), ("approval.requested", asked)])


def follow_approval(run: Run, step: StepSpec, row: StepRun, approval: Approval) -> bool:
    """Start what was approved, with its edits; end what was not. False while the question is open."""
    if approval.status == Approval.Status.OPEN:
        return False
    if approval.status == Approval.Status.APPROVED:
        edited = approval.edited_arguments
        fields = {"input": edited} if edited is not None else {}
        StepRun.objects.filter(pk=row.pk, status=Status.WAITING).update(status=Status.READY, wake_at=None, **fields)
        return True
    word = "nobody answered in time" if approval.status == Approval.Status.EXPIRED else "a person said no"
    message = f"{word}: {approval.note}" if approval.note else word
    code = "approval_expired" if approval.status == Approval.Status.EXPIRED else "approval_denied"
    return settle(run, step, row, error={"code": code, "message": message})


# -- claiming and settling


def claim(
    row: StepRun, status: str, *, owner: str = "", lease_s: float | None = None, attempt: bool = True, **more: Any
) -> bool:
    """Take a ready row; of two workers one wins. Without `lease_s` the run's own lease covers it."""
    now = timezone.now()
    fields: dict[str, Any] = {
        "status": status,
        "wake_at": None,
        "lease_owner": owner,
        "lease_expires_at": now + timedelta(seconds=lease_s) if lease_s else None,
        "started_at": row.started_at or now,
        **more,
    }
    won = StepRun.objects.filter(pk=row.pk, status=Status.READY, attempt=row.attempt).update(
        **fields, attempt=F("attempt") + (1 if attempt else 0)
    )
    if won:
        row.attempt += 1 if attempt else 0
        for name, value in fields.items():
            setattr(row, name, value)
    return bool(won)


@transaction.atomic
def settle(
    run: Run,
    step: StepSpec,
    row: StepRun,
    *,
    output: Any = None,
    error: dict[str, Any] | None = None,
    told: Sequence[Any] = (),
) -> bool:
    """End this attempt: try again later, go another round, or end the row. False when it had been settled already.

    `told` are events that come before.
    """
    error = error or schema_error(step, output)
    if error is None and step.repeat_until:
        again, error = another_round(step, row, output, run)
        if again:
            events.record_many(run, told)
            return put_back(run, row, wake_at=None, output=output, repeat=row.repeat + 1, input=None, attempt=0)
    if error and may_retry(step.retry, row.attempt, error):
        wake_at = timezone.now() + timedelta(seconds=backoff_s(step.retry, row.attempt))
        events.record_many(run, told)
        return put_back(run, row, wake_at=wake_at, error=error)
    kept = row.output if error and output is None else output
    return end(run, row, Status.FAILED if error else Status.SUCCEEDED, output=kept, error=error, told=told)


def end(
    run: Run,
    row: StepRun,
    status: str,
    *,
    output: Any = None,
    error: dict[str, Any] | None = None,
    told: Sequence[Any] = (),
) -> bool:
    """Write the end of a row once; False when it had ended already."""
    fields = {
        "status": status,
        "output": output,
        "error": error,
        "finished_at": timezone.now(),
        "wake_at": None,
        "lease_owner": "",
        "lease_expires_at": None,
    }
    if not open_rows(row).update(**fields):
        events.record_many(run, told)
        return False
    for name, value in fields.items():
        setattr(row, name, value)
    ended = [("step.finished", told_of(row, status=status, error=error, wall_ms=wall_ms(row)))] if row.item < 0 else []
    events.record_many(run, [*told, *ended])
    return True


def open_rows(row: StepRun) -> Any:
    return StepRun.objects.filter(pk=row.pk, status__in=OPEN, attempt=row.attempt, repeat=row.repeat)


def schema_error(step: StepSpec, output: Any) -> dict[str, Any] | None:
    if not step.output_schema:
        return None
    problems = schema.validate(step.output_schema, output)
    if not problems:
        return None
    return {"code": "output_invalid", "message": f"the output breaks the step's schema: {problems[0]['message']}"}


def another_round(step: StepSpec, row: StepRun, output: Any, run: Run) -> tuple[bool, dict[str, Any] | None]:
    """(again, error): is the condition of repeat_until still false, and may it go round once more?"""
    scope = {"output": output, "previous": row.output, "round": row.repeat, "input": run.input}
    try:
        if holds(step.repeat_until.condition, scope):
            return False, None
    except MappingError as error:
        return False, {"code": error.code, "message": f"repeat_until: {error}"}
    if row.repeat + 1 < step.repeat_until.limit:
        return True, None
    limit = step.repeat_until.limit
    return False, {"code": "repeat_limit", "message": f"`{step.repeat_until.condition}` did not hold in {limit} rounds"}


def put_back(run: Run, row: StepRun, *, wake_at: Any, **fields: Any) -> bool:
    """The row is ready again, now or at `wake_at`; its call and child stay in their own records."""
    done = open_rows(row).update(
        status=Status.READY, wake_at=wake_at, child=None, call=None, lease_owner="", lease_expires_at=None, **fields
    )
    if done:
        for name, value in {"status": Status.READY, "wake_at": wake_at, **fields}.items():
            setattr(row, name, value)
        if wake_at and row.item < 0:
            tell(
                run, "step.waiting", row, until=events.rfc3339(wake_at), attempt=row.attempt, error=fields.get("error")
            )
    return bool(done)


def wall_ms(row: StepRun) -> float | None:
    if row.started_at is None or row.finished_at is None:
        return None
    return (row.finished_at - row.started_at).total_seconds() * 1000


def told_of(row: StepRun, **more: Any) -> dict[str, Any]:
    return {"step": str(row.pk), "key": row.key, "item": row.item, **more}


def tell(run: Run, type: str, row: StepRun, **more: Any) -> None:
    events.record(run, type, told_of(row, **more))
