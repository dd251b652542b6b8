"""A run waits for an answer, and any protocol may send it: by the id of the input request, once."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists

from agents import schema
from agents.exceptions import Invalid
from agents.tools import CallPending, ToolFailed, ToolResult
from plumbing import clock
from runs.events import record as events
from runs.exceptions import AlreadyAnswered
from runs.models import InputRequest, Run, ToolCallRecord
from runs.queue import endings
from runs.queue.locks import lock_run

Status = InputRequest.Status


def ask_question(run: Run, record: ToolCallRecord, key: str = "", **question: Any) -> ToolResult:
    """The answer to this call's question. Asks once, and raises CallPending until it is answered.

    `key` tells several questions of one call apart. `question`: kind, prompt, schema, arguments,
    is_trusted, timeout_s, and `state`, which `list_earlier_states` returns. Raises ToolFailed (input_declined,
    input_expired, or the caller's own code).
    """
    request = InputRequest.objects.filter(call=record, key=key).first()
    if request is None:
        request = create_input_request(run, record, key=key, **question)
    if request.status == Status.OPEN and request.expires_at <= clock.near():
        expire_input_request(request)
    if request.status == Status.OPEN:
        raise CallPending("input", until=request.expires_at, reference=str(request.pk))
    if request.status == Status.EXPIRED:
        raise ToolFailed("Nobody answered in time.", code="input_expired")
    if request.status != Status.ANSWERED:
        raise ToolFailed("The question was declined.", code="input_declined")
    if request.error is not None:
        return ToolResult(ok=False, error=request.error, untrusted=not request.is_trusted)
    return ToolResult(ok=True, value=request.value, untrusted=not request.is_trusted)


def list_earlier_states(record: ToolCallRecord) -> list[dict[str, Any]]:
    """The `state` of each question that this call has asked, oldest first."""
    questions = InputRequest.objects.filter(call=record).order_by("id")
    states = questions.values_list("state", flat=True)
    return [state for state in states if state is not None]


def is_closed(record: ToolCallRecord) -> bool:
    """Has every question of this call been answered, or has its time passed?"""
    open_questions = InputRequest.objects.open().filter(call=record, expires_at__gt=clock.Now())
    return not open_questions.exists()


@transaction.atomic
def create_input_request(run: Run, record: ToolCallRecord, *, timeout_s: float, **fields: Any) -> InputRequest:
    expires_at = clock.near() + timedelta(seconds=timeout_s)
    request = InputRequest(run=run, call=record, name=record.name, expires_at=expires_at, **fields)
    lock_run(run.pk)
    request.save(force_insert=True)
    events.record_event(run, "input.requested", requested_data(request))
    return request


def requested_data(request: InputRequest) -> dict[str, Any]:
    return {
        "id": str(request.pk),
        "call": str(request.call_id),
        "kind": request.kind,
        "name": request.name,
        "prompt": request.prompt,
        "schema": request.schema,
        "arguments": request.arguments,
        "expires_at": events.format_moment(request.expires_at),
    }


def answered_data(request: InputRequest, status: str, by: str) -> dict[str, Any]:
    return {
        "id": str(request.pk),
        "call": str(request.call_id),
        "kind": request.kind,
        "status": status,
        "by": by,
    }


@transaction.atomic
def expire_input_request(request: InputRequest) -> None:
    lock_run(request.run_id)
    still_open = InputRequest.objects.open().filter(pk=request.pk)
    if still_open.update(status=Status.EXPIRED, answered_at=clock.near()):
        events.record_event(request.run, "input.answered", answered_data(request, Status.EXPIRED, ""))
    request.refresh_from_db()


def answer_input_request(
    request: InputRequest, *, by: Any, value: Any = None, error: dict[str, str] | None = None
) -> InputRequest:
    """Send the answer, or with `error` {"code", "message"} a failure. Raises Invalid, AlreadyAnswered."""
    if error is None and request.schema is not None:
        details = []
        for problem in schema.validate(request.schema, value):
            details.append({"field": f"value{problem['path']}", "code": "schema", "message": problem["message"]})
        if details:
            raise Invalid("The answer does not match its schema.", code="invalid_answer", details=details)
    return close_input_request(request, Status.ANSWERED, by=by, value=value, error=error)


def decline(request: InputRequest, *, by: Any) -> InputRequest:
    """Refuse to answer; the run continues without it. Raises AlreadyAnswered."""
    return close_input_request(request, Status.DECLINED, by=by)


@transaction.atomic
def close_input_request(request: InputRequest, status: str, *, by: Any, **fields: Any) -> InputRequest:
    lock_run(request.run_id)
    now = clock.near()
    alive = Run.objects.live().filter(pk=request.run_id, cancel_requested_at=None)
    still_open = InputRequest.objects.open().filter(Exists(alive), pk=request.pk, expires_at__gt=now)
    is_closed_now = still_open.update(status=status, answered_by=by, answered_at=now, **fields)
    request.refresh_from_db()
    if not is_closed_now:
        raise AlreadyAnswered(hint="GET it to see its status.")
    events.record_event(request.run, "input.answered", answered_data(request, status, by.get_username()))
    endings.wake(request.run_id)
    return request
