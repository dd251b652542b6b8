"""Calls that were recorded earlier: each goes on by what its row says of an approval, an answer or a
crash.
"""

from django.db import transaction

from agents import schema
from agents.models import ToolGrant
from agents.tools import OutcomeUnknown, ToolResult, may_repeat
from registry import toolsets
from runs.models import Approval, ToolCallRecord
from runs.rules import policy

from . import bindings, call_records, inputs, skills
from .call_records import approval_data, close_call, denied_data, finished_data, invalid_arguments, start_attempt
from .executor import ToolCallExecutor

Outcome = ToolCallRecord.Outcome
# What a decision changes of a call. Its other columns belong to the worker that makes it.
CHANGED = "it was changed after this call was approved, so it has to be approved again"
DECIDED = ("arguments", "details", "waiting_for", "attempt", "started_at", "finished_at", "wall_ms", "outcome", "error",
           "effect")  # fmt: skip


def resume_calls(executor: ToolCallExecutor, records: list[ToolCallRecord]) -> None:
    """Continue with the calls of a turn from their rows: results are kept, nothing is repeated silently."""
    for record in records:
        resume_call(executor, record)
    executor.perform(records)


def resume_call(executor: ToolCallExecutor, record: ToolCallRecord) -> None:
    """Prepare an open call to be made, or close it. A call that still waits keeps its `waiting_for`."""
    if record.outcome:
        return
    if record.waiting_for == "approval":
        follow_approval(executor, record)
    elif record.waiting_for == "input" and not toolsets.is_durable(record.kind):
        follow_answer(executor, record)
    elif record.attempt and not record.waiting_for:
        after_crash(executor, record)


def after_crash(executor: ToolCallExecutor, record: ToolCallRecord) -> None:
    """It was started and has no result."""
    if record.name in executor.tools and toolsets.is_durable(record.kind):
        return  # asked again with its old id, which finds the earlier call
    call_records.close_callbacks(record)
    if is_repeatable(executor, record) and not call_records.has_written(record):
        restart_call(executor, record)
        return
    message = "the worker died during this call; it is unknown whether the call was carried out"
    executor.settle(record, ToolResult.failed(OutcomeUnknown.code, message))


def is_repeatable(executor: ToolCallExecutor, record: ToolCallRecord) -> bool:
    """Repeated is what was started: neither another definition than the approved one, nor one that was graver then."""
    tool = executor.tools.get(record.name)
    if tool is None or not may_repeat(record.effect, record.kind) or not is_still_approved(executor, record):
        return False
    return executor.tool_for(record).is_repeatable


def is_still_approved(executor: ToolCallExecutor, record: ToolCallRecord) -> bool:
    """A call that nobody was asked about is checked by policy alone."""
    approval = Approval.objects.filter(call=record).first()
    subject = skills.find_deciding_tool(executor, record)
    if approval is None:
        return True
    return subject is not None and bindings.approved_tool(subject, approval.definition) is not None


def follow_answer(executor: ToolCallExecutor, record: ToolCallRecord) -> None:
    """The call goes on with its answers. A crash from here on is a crash of a started call."""
    if not inputs.is_closed(record):
        return
    if record.name in executor.tools and not is_still_approved(executor, record):
        executor.settle(record, ToolResult.failed("definition_changed", "the tool was changed while the call waited"))
    else:
        record.waiting_for = ""
        restart_call(executor, record)


@transaction.atomic
def restart_call(executor: ToolCallExecutor, record: ToolCallRecord) -> None:
    executor.tell()  # of two workers one may start it
    record.attempt += 1
    record.save(update_fields=["attempt", "waiting_for"])


def follow_approval(executor: ToolCallExecutor, record: ToolCallRecord) -> None:
    """Start what was approved (with its edits), close what was denied; open ones keep waiting."""
    approval = Approval.objects.get(call=record)
    if approval.status == Approval.Status.OPEN:
        return
    if approval.status == Approval.Status.APPROVED:
        follow_yes(executor, record, approval)
        return
    word = "nobody answered in time" if approval.status == Approval.Status.EXPIRED else "a person denied it"
    message = f"{word}: {approval.note}" if approval.note else word
    deny(executor, record, f"approval_{approval.status}", message)


@transaction.atomic
def follow_yes(executor: ToolCallExecutor, record: ToolCallRecord, approval: Approval) -> None:
    """An approval counts for the call as it is now: a call that has since been denied, or does
    not match the schema, is not made.
    """
    executor.tell()  # of two workers one may start it
    tool = executor.tools.get(record.name)
    skill = skills.find_deciding_tool(executor, record)
    approved = bindings.approved_tool(skill, approval.definition) if skill else None
    if tool is skill:
        tool = approved or tool
    decision = executor.judge(tool, record.name)
    if approval.edited_arguments is not None:
        record.arguments = approval.edited_arguments
        record.details.pop("hooks", None)  # they are asked again
    if tool is None or decision.mode == policy.DENY:
        deny(executor, record, "denied", decision.reason)
    elif approved is None:
        ask_again(executor, record, approval)
    elif decision.mode == policy.ASK and is_for_others(executor, record, approval):
        deny(
            executor, record, "approval_needed", "the user agreed that this tool is used; others must approve each call"
        )
    elif skills.find_deciding_tool(executor, record) is not skill:
        deny(executor, record, "denied", "the edit names another skill, which needs its own approval")
    elif problems := schema.validate(tool.input_schema, record.arguments):
        close_call(record, Outcome.FAILED, error=invalid_arguments(problems))
        record.save(update_fields=DECIDED)
        executor.tell(("tool.finished", finished_data(record)))
    else:
        record.waiting_for = ""
        record.effect = tool.effect
        if version := approval.definition.get("version"):
            record.details["approved_version"] = version
        start_attempt(record)
        record.save(update_fields=DECIDED)


def ask_again(executor: ToolCallExecutor, record: ToolCallRecord, approval: Approval) -> None:
    """The earlier yes stays in the list of approvals, without the call: it was for another definition."""
    Approval.objects.filter(pk=approval.pk).update(call=None)
    record.effect = skills.find_deciding_tool(executor, record).effect
    record.details["reason"] = CHANGED
    record.save(update_fields=DECIDED)
    question = executor.approval_for(record)
    question.findings = approval.findings
    question.save(force_insert=True)
    executor.tell(("approval.requested", approval_data(question)))


def is_for_others(executor: ToolCallExecutor, record: ToolCallRecord, approval: Approval) -> bool:
    """The person agreed that somebody else's agent uses the tool; the grant lets others decide about its calls."""
    was_first = approval.decides == ToolGrant.Decider.STARTER and not approval.not_starter
    return was_first and bool(executor.deciders(record))


@transaction.atomic
def deny(executor: ToolCallExecutor, record: ToolCallRecord, code: str, message: str) -> None:
    close_call(record, Outcome.DENIED, error={"code": code, "message": message})
    record.save(update_fields=DECIDED)
    executor.tell(("tool.denied", denied_data(record)))
