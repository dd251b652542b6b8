"""What a run waits for, as elicitations: approvals and questions to the person.

An elicitation has the id of the approval or the input request, so any process takes its answer, once.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db.models import Q

from agents.http.parsers import read
from agents.models.key import DECIDE
from gateway.reading import as_text
from runs.calls import approvals, inputs
from runs.events import record as events
from runs.exceptions import AlreadyAnswered, AlreadyDecided
from runs.models import Approval, InputRequest

from .protocol import PARAMS, Asked, Fault

JSON = Any
PRIMITIVE = frozenset(["string", "number", "integer", "boolean"])
LONGEST = 2000  # characters of arguments in a question
DECISION = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Yes: the call is made. No: it is refused."},
        "note": {"type": "string", "title": "Note", "description": "The agent reads it.", "maxLength": 500},
    },
    "required": ["approve"],
}


def of_tree(run_id: UUID) -> Q:
    return Q(run_id=run_id) | Q(run__root_id=run_id)


def decidable(asked: Asked) -> Any:
    """Approvals of this person's own runs that this key may decide."""
    if asked.key is not None and not asked.key.allows(DECIDE):
        return Approval.objects.none()
    return Approval.objects.decidable_by(asked.user).filter(run__principal_id=asked.user.pk).select_related("run")


def open_ones(asked: Asked, run_id: UUID) -> dict[str, dict[str, JSON]]:
    """What the run and those below it wait for: id → `elicitation/create`. Empty for a client without elicitation."""
    if not asked.can("elicitation"):
        return {}
    rows = [*decidable(asked).open().filter(of_tree(run_id)).order_by("id"), *forms(asked, run_id)]
    return {str(row.pk): {"method": "elicitation/create", "params": params_of(row)} for row in rows}


def forms(asked: Asked, run_id: UUID) -> Any:
    rows = InputRequest.objects.visible_to(asked.user).open().filter(of_tree(run_id), kind=InputRequest.Kind.FORM)
    return rows.order_by("id")


def params_of(row: Approval | InputRequest) -> dict[str, JSON]:
    if isinstance(row, Approval):
        shown = as_text(row.arguments)[:LONGEST]
        because = f" ({row.reason})" if row.reason else ""
        return {
            "mode": "form",
            "message": f"Allow “{row.tool}”{because}? Arguments: {shown}",
            "requestedSchema": DECISION,
        }
    return {"mode": "form", "message": row.prompt or row.name, "requestedSchema": form_of(row.schema)}


def form_of(schema: JSON) -> dict[str, JSON]:
    """The schema of an answer as a flat form; what is not flat becomes one field."""
    if is_flat(schema):
        return {"type": "object", "properties": schema["properties"], "required": schema.get("required", [])}
    return {"type": "object", "properties": {"answer": field_of(schema)}, "required": ["answer"]}


def is_flat(schema: JSON) -> bool:
    fields = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(fields, dict) and bool(fields) and all(is_simple(one) for one in fields.values())


def is_simple(schema: JSON) -> bool:
    return isinstance(schema, dict) and schema.get("type") in PRIMITIVE and "$ref" not in schema


def field_of(schema: JSON) -> dict[str, JSON]:
    if schema is None or is_simple(schema):
        return schema or {"type": "string"}
    return {"type": "string", "description": f"JSON that matches {as_text(schema)[:LONGEST]}"}


def settle(asked: Asked, responses: dict[str, JSON], run_id: UUID | None = None) -> None:
    """Take the client's answers. One that was answered or decided already, or is unknown, is left out.

    `run_id`: only questions of this run and those below it. Raises Fault, Invalid.
    """
    within = of_tree(run_id) if run_id else Q()
    given = dict(readable(responses))
    waiting: set[UUID] = set()
    for approval in decidable(asked).open().filter(within, pk__in=given):
        if decide(asked, approval, given[approval.pk]):
            waiting.add(approval.run_id)
    requests = InputRequest.objects.visible_to(asked.user).open().select_related("run")
    for request in requests.filter(within, pk__in=given):
        if reply(asked, request, given[request.pk]):
            waiting.add(request.run_id)
    for one in waiting:
        events.expect_watcher(one)


def readable(responses: dict[str, JSON]) -> Iterator[tuple[UUID, dict[str, JSON]]]:
    for id, result in responses.items():
        if not isinstance(result, dict) or result.get("action") not in ("accept", "decline", "cancel"):
            raise Fault(PARAMS, f"The response to “{id[:80]}” must have an “action”: accept, decline or cancel.")
        try:
            yield UUID(id), result
        except ValueError:
            continue


def decide(asked: Asked, approval: Approval, result: dict[str, JSON]) -> bool:
    """Whether this was the decision. `cancel` leaves it open: it can still be decided in Muster."""
    if result["action"] == "cancel":
        return False
    content = result.get("content") if isinstance(result.get("content"), dict) else {}
    is_yes = result["action"] == "accept" and content.get("approve") is True
    note = content.get("note") if isinstance(content.get("note"), str) else ""
    try:
        approvals.decide(approval, "approve" if is_yes else "deny", by=asked.user, note=note, source="mcp")
    except AlreadyDecided:
        return False
    return True


def reply(asked: Asked, request: InputRequest, result: dict[str, JSON]) -> bool:
    if result["action"] == "cancel":
        return False
    try:
        if result["action"] == "decline":
            inputs.decline(request, by=asked.user)
        else:
            inputs.answer(request, by=asked.user, value=value_of(request.schema, result.get("content")))
    except AlreadyAnswered:
        return False
    return True


def value_of(schema: JSON, content: JSON) -> JSON:
    """The answer that a form's content stands for."""
    if is_flat(schema):
        return content
    answer = content.get("answer") if isinstance(content, dict) else None
    if schema is None or is_simple(schema) or not isinstance(answer, str):
        return answer
    try:
        return read(answer.encode())
    except ValueError as error:
        raise Fault(PARAMS, f"The answer is not JSON: {error}.")
