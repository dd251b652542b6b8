"""The row of a tool call: starting and closing it, checking its arguments, the data of its events."""

from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from agents import schema
from agents.tools import OutcomeUnknown, ToolError, ToolResult, ToolSpec
from plumbing import clock
from runs.events import record as events
from runs.models import Approval, Run, ToolCallRecord

from .model_messages import result_text


def failure(error: ToolError) -> ToolResult:
    return ToolResult.failed(error.code, str(error), **({"details": error.details} if error.details else {}))


def may_start(record: ToolCallRecord) -> bool:
    """Neither answered, nor waiting for a person or for a later time."""
    return not record.outcome and record.waiting_for != "approval" and not waits_for_time(record)


def waits_for_time(record: ToolCallRecord, now: datetime | None = None) -> bool:
    if record.waiting_for != "timer" or not record.details.get("until"):
        return False
    return parse_datetime(record.details["until"]) > (now or clock.near())


def start_attempt(record: ToolCallRecord) -> None:
    record.attempt += 1
    record.started_at = clock.near()


def close_call(record: ToolCallRecord, outcome: str, **fields: Any) -> None:
    record.outcome = outcome
    record.waiting_for = ""
    record.finished_at = clock.near()
    if record.started_at:
        record.wall_ms = (record.finished_at - record.started_at).total_seconds() * 1000
    for name, value in fields.items():
        setattr(record, name, value)


def write_result_columns(record: ToolCallRecord, result: ToolResult) -> None:
    """Write the tool's result to the row; an unknown outcome is distinct from a failure."""
    outcome = ToolCallRecord.Outcome.OK if result.ok else ToolCallRecord.Outcome.FAILED
    if not result.ok and (result.error or {}).get("code") == OutcomeUnknown.code:
        outcome = ToolCallRecord.Outcome.UNKNOWN
    close_call(record, outcome, result=result.value, error=result.error, printed=result.printed)
    record.untrusted = record.untrusted or result.untrusted
    record.details = {**record.details, **result.details}


def argument_problems(tool: ToolSpec | None, requested: Any) -> list[dict[str, Any]]:
    if requested.problem:
        return [{"path": "", "message": requested.problem}]
    return schema.validate(tool.input_schema, requested.arguments) if tool else []


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
    return run.metadata.get("device") if isinstance(run.metadata, dict) else None


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
    return {"id": str(record.pk), "name": record.name, "reason": (record.error or {}).get("message", "")}


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
    times = [parse_datetime(record.details["until"]) for record in records if record.details.get("until")]
    times += [record.approval.expires_at for record in records if record.waiting_for == "approval"]
    return min(times, default=None)
