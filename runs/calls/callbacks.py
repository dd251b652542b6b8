"""Tools that a stored function calls, and what becomes of a function that was cut short after it called some."""

from dataclasses import replace
from typing import Any

from django.db import transaction
from uuid_utils.compat import uuid7

from agents import schema
from agents.tools import CallPending, OutcomeUnknown, ToolFailed, ToolResult, ToolSpec, may_repeat
from plumbing.statements import insert_rows
from runs.models import ToolCallRecord
from runs.rules import policy

from . import origins
from .call_records import called_data, failure, start_attempt

Outcome = ToolCallRecord.Outcome
LIMIT = 200  # recorded callbacks of one function call
CUT_SHORT = frozenset(["timeout", "out_of_memory", "function_crashed", "violation", "cancelled"])


def call_from_function(executor: Any, parent: ToolCallRecord, name: str, arguments: dict[str, Any]) -> Any:
    """A stored function calls a tool: recorded under its call, same policy, never waits."""
    tool = executor.tools.get(name)
    executor._origins = None  # what the function has read by now counts
    findings = executor.findings(tool, arguments)
    decision = executor.judge(tool, name, findings=findings, is_callback=True)
    if decision.mode != policy.ALLOW or tool is None:
        raise ToolFailed(decision.reason, code="denied")
    if problems := schema.validate(tool.input_schema, arguments):
        raise ToolFailed(f"arguments of “{name}”: {problems[0]['message']}", code="invalid_arguments", details=problems)
    if ToolCallRecord.objects.filter(parent_call=parent).count() >= LIMIT:
        raise ToolFailed(f"one call may make {LIMIT} callbacks", code="too_many_callbacks")
    record = ToolCallRecord(
        id=uuid7(), run=executor.run, parent_call=parent, turn=parent.turn, name=name, kind=tool.kind,
        effect=tool.effect, arguments=arguments, untrusted=executor.run.has_untrusted and origins.is_derived(findings),
    )  # fmt: skip
    start_attempt(record)
    with transaction.atomic():
        executor.tell(("tool.called", called_data(record)))
        insert_rows(record)
    executor.called_back.add(parent.pk)
    if not tool.is_repeatable:
        executor.wrote.add(parent.pk)
    try:
        result = executor.answer(tool, record)
    except CallPending as pending:
        waits = ToolFailed(f"“{name}” would wait for a {pending.waiting_for}; a callback cannot", code="would_wait")
        result = failure(pending.instead or waits)
    executor.settle(record, result)
    parent.untrusted = parent.untrusted or record.untrusted  # the function may say again what it has read
    if not result.ok:
        error = result.error or {}
        raise ToolFailed(error.get("message", "failed"), code=error.get("code", "tool_failed"))
    return result.value


def in_doubt(executor: Any, tool: ToolSpec, record: ToolCallRecord, result: ToolResult) -> ToolResult:
    """A function that was cut short may have done what must not be done twice."""
    code = (result.error or {}).get("code")
    if result.ok or tool.kind != "function" or code not in CUT_SHORT:
        return result
    if tool.is_repeatable and record.pk not in executor.wrote:
        return result
    message = f"the function was cut short ({code}); nobody knows what it had done by then"
    return replace(result, error={**(result.error or {}), "code": OutcomeUnknown.code, "message": message})


def has_written(record: ToolCallRecord) -> bool:
    """Has the function of this call begun anything that must not be done twice?"""
    callbacks = ToolCallRecord.objects.filter(parent_call=record).exclude(outcome__in=[Outcome.DENIED, Outcome.FAILED])
    return not all(may_repeat(effect, kind) for effect, kind in callbacks.values_list("effect", "kind"))
