"""The row of a tool call: it is started and closed, its arguments are checked, and its events get their data.

A result is stored in one transaction with the toolset's own record, its event, and the run's counts and mark.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import DataError, IntegrityError, transaction
from django.db.models import F
from django.utils.dateparse import parse_datetime

from agents import schema
from agents.http.parsers import MAX_DEPTH
from agents.schema import measure_depth
from agents.tools import OutcomeUnknown, ToolError, ToolResult, ToolSpec, may_repeat
from plumbing import clock, json_values
from plumbing.statements import update_each
from runs.events import record as events
from runs.exceptions import LeaseLost
from runs.models import Approval, Run, Session, ToolCallRecord

from .model_messages import result_text


def failure(error: ToolError) -> ToolResult:
    more = {"details": error.details} if error.details else {}
    return ToolResult.failed(error.code, str(error), **more)


def may_start(record: ToolCallRecord) -> bool:
    """Neither answered, nor waiting for a person or for a later time."""
    if record.outcome or record.waiting_for == "approval":
        return False
    return not waits_for_time(record)


def waits_for_time(record: ToolCallRecord, now: datetime | None = None) -> bool:
    until = record.details.get("until")
    if record.waiting_for != "timer" or not until:
        return False
    now = now or clock.near()
    return parse_datetime(until) > now


def start_attempt(record: ToolCallRecord) -> None:
    record.attempt += 1
    record.started_at = clock.near()


def close_call(record: ToolCallRecord, outcome: str, **fields: Any) -> None:
    record.outcome = outcome
    record.waiting_for = ""
    record.finished_at = clock.near()
    if record.started_at:
        duration = record.finished_at - record.started_at
        record.wall_ms = duration.total_seconds() * 1000
    for name, value in fields.items():
        setattr(record, name, value)


def write_result_columns(record: ToolCallRecord, result: ToolResult) -> None:
    """Write the tool's result to the row; an unknown outcome is distinct from a failure."""
    outcome = ToolCallRecord.Outcome.OK
    if not result.ok:
        code = (result.error or {}).get("code")
        is_unknown = code == OutcomeUnknown.code
        outcome = ToolCallRecord.Outcome.UNKNOWN if is_unknown else ToolCallRecord.Outcome.FAILED
    close_call(record, outcome, result=result.value, error=result.error, printed=result.printed)
    record.untrusted = record.untrusted or result.untrusted
    record.details = {**record.details, **result.details}


def argument_problems(tool: ToolSpec | None, requested: Any) -> list[dict[str, Any]]:
    if requested.problem:
        return [{"path": "", "message": requested.problem}]
    if tool is None:
        return []
    return schema.validate(tool.input_schema, requested.arguments)


def refusal_of_arguments(requested: Any, problems: list[dict[str, Any]]) -> dict[str, Any]:
    """The error for the model whose call cannot be made as it was written."""
    if getattr(requested, "is_cut_off", False):
        return {"code": "answer_cut_off", "message": requested.problem}
    return invalid_arguments(problems)


def invalid_arguments(problems: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "code": "invalid_arguments",
        "message": "the arguments do not match the tool's schema; call it again with valid ones",
        "details": problems[:20],
    }


def find_run_device(run: Run) -> str | None:
    if run.session is not None and run.session.device:
        return str(run.session.device)
    if isinstance(run.metadata, dict):
        return run.metadata.get("device")
    return None


def called_data(record: ToolCallRecord) -> dict[str, Any]:
    return {
        "id": str(record.pk),
        "name": record.name,
        "kind": record.kind,
        "arguments": record.arguments,
        "parent_call": str(record.parent_call_id) if record.parent_call_id else None,
        "refused": bool(record.outcome),  # before it was made
    }


def denied_data(record: ToolCallRecord) -> dict[str, Any]:
    error = record.error or {}
    return {"id": str(record.pk), "name": record.name, "reason": error.get("message", "")}


def finished_data(record: ToolCallRecord) -> dict[str, Any]:
    return {
        "id": str(record.pk),
        "name": record.name,
        "outcome": record.outcome,
        "result": record.result,
        "error": record.error,
        "text": result_text(record)[:500] if record.untrusted else None,
        "printed": record.printed,
        "wall_ms": record.wall_ms,
    }


def approval_data(approval: Approval) -> dict[str, Any]:
    return {
        "id": str(approval.pk),
        "call": str(approval.call_id) if approval.call_id else None,
        "tool": approval.tool,
        "arguments": approval.arguments,
        "effect": approval.effect,
        "findings": approval.findings,
        "reason": approval.reason,
        "expires_at": events.format_moment(approval.expires_at),
        "default": approval.default,
    }


def earliest(records: list[ToolCallRecord]) -> Any:
    """When the first of these waits ends, as far as that is known."""
    times = []
    for record in records:
        until = record.details.get("until")
        if until:
            times.append(parse_datetime(until))
        if record.waiting_for == "approval":
            times.append(record.approval.expires_at)
    return min(times, default=None)


log = logging.getLogger(__name__)
TOO_DEEP = {"code": "too_deep", "message": f"the result is nested deeper than {MAX_DEPTH} levels"}
LATE_BYTES = 100_000
SETTLED = ("outcome", "waiting_for", "finished_at", "wall_ms", "result", "error", "printed", "untrusted", "details")


class Late(Exception):
    """This call was settled already, or is made again by another worker."""


def settle_call(run: Run, record: ToolCallRecord, result: ToolResult, *, where: dict[str, Any]) -> None:
    """Write the result and tell of it; counts and the untrusted mark go to the run.

    `where` says what must hold of the run's row, such as the lease. A result that comes too late is kept aside.
    Raises LeaseLost.
    """
    result = make_storable(result)
    write_result_columns(record, result)
    try:
        write_result(run, record, result, where)
    except Late:
        keep_aside(record, result)
        return
    except LeaseLost:
        keep_aside(record, result)
        raise
    except (DataError, IntegrityError):
        if result.keep is None:
            raise
        write_result(run, record, replace(result, keep=None), where)
        keep_alone(record, result.keep)
    copy_result_to_run(run, record, result)


def make_storable(result: ToolResult) -> ToolResult:
    """The result as it can be stored, sent and shown to a model, whoever made it."""
    depth = measure_depth(result.value, MAX_DEPTH)
    if depth > MAX_DEPTH:
        return replace(result, ok=False, value=None, error=TOO_DEEP)
    return replace(
        result,
        value=json_values.clean_json(result.value),
        error=json_values.clean_json(result.error),
        printed=json_values.clean_text(result.printed),
        details=json_values.clean_json(result.details),
    )


@transaction.atomic
def write_result(run: Run, record: ToolCallRecord, result: ToolResult, where: dict[str, Any]) -> None:
    """The run's row first, as everybody locks it before its calls."""
    mark = {"has_untrusted": True} if record.untrusted else {}
    entry = ("tool.finished", finished_data(record))
    if events.record_events_and_change(run, [entry], where=where, values=mark) is None:
        raise LeaseLost(str(run.pk))
    if result.keep is not None:
        result.keep()
    was_open = update_each([record], SETTLED, where=still_open(record))
    if not was_open:
        raise Late
    add_counts(run, result)
    mark_session(run, record)


def still_open(record: ToolCallRecord) -> dict[str, Any]:
    """The conditions of an update: the call has no outcome, and no other attempt has begun."""
    return {"outcome": "", "attempt": record.attempt}


def keep_aside(record: ToolCallRecord, result: ToolResult) -> None:
    """What a call gave after it was settled as unknown; a person may look it up."""
    log.warning("The result of %s %s came too late", record.name, record.pk)
    late = {"ok": result.ok, "value": result.value, "error": result.error}
    size = len(json.dumps(late, default=str))
    if size > LATE_BYTES:
        late["value"] = None
    rows = ToolCallRecord.objects.filter(pk=record.pk, outcome=ToolCallRecord.Outcome.UNKNOWN)
    for details in rows.values_list("details", flat=True):
        rows.update(details={**details, "late": late})


def close_callbacks(record: ToolCallRecord) -> None:
    """Calls that a function made and that had no answer when its own call ended."""
    message = "the call that made it ended first; nobody knows whether it was done"
    open_callbacks = ToolCallRecord.objects.filter(parent_call=record, outcome="")
    open_callbacks.update(
        outcome=ToolCallRecord.Outcome.UNKNOWN,
        error={"code": "outcome_unknown", "message": message},
        finished_at=clock.near(),
    )


def has_written(record: ToolCallRecord) -> bool:
    """Has the function of this call begun anything that must not be done twice?"""
    not_made = [ToolCallRecord.Outcome.DENIED, ToolCallRecord.Outcome.FAILED]
    begun = ToolCallRecord.objects.filter(parent_call=record).exclude(outcome__in=not_made)
    kinds_of_calls = begun.values_list("effect", "kind")
    return not all(may_repeat(effect, kind) for effect, kind in kinds_of_calls)


def mark_session(run: Run, record: ToolCallRecord) -> None:
    """Marks the conversation: untrusted content was read in it, for every message that follows."""
    if not record.untrusted or run.session is None or run.session.has_untrusted:
        return
    Session.objects.filter(pk=run.session_id).update(has_untrusted=True)
    run.session.has_untrusted = True


def add_counts(run: Run, result: ToolResult) -> None:
    counts = read_result_counts(result)
    if counts:
        sums = {name: F(name) + number for name, number in counts.items()}
        Run.objects.filter(pk=run.pk).update(**sums)


def read_result_counts(result: ToolResult) -> dict[str, int]:
    """What a run counts of a result."""
    counts = {}
    for name in ("processed", "created", "updated"):
        number = result.counts.get(name)
        if number:
            counts[name] = number
    return counts


def copy_result_to_run(run: Run, record: ToolCallRecord, result: ToolResult) -> None:
    """Copies the changed columns to the run object in use."""
    run.has_untrusted = run.has_untrusted or record.untrusted
    for name, number in read_result_counts(result).items():
        before = getattr(run, name)
        setattr(run, name, before + number)


def keep_alone(record: ToolCallRecord, keep: Callable[[], None]) -> None:
    """Store the toolset's own record alone: what it refers to may have been deleted, and the result
    is valid without it. A record that cannot be stored is only missing in its own list.
    """
    try:
        keep()
    except DataError:
        log.exception("The toolset's own record of %s %s could not be stored", record.name, record.pk)
