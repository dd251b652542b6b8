"""What a run waits for, as requests to the client: approvals and questions to the person (elicitation), and the tools
by which an agent asks the client itself (sampling, roots).

A request has the id of the approval or the input request, or the key of a question with one, so any process takes its
answer, once.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db.models import Q

from agents.http.parsers import parse_json_body
from agents.models.key import DECIDE
from gateway.reading import render_result_value
from runs.calls import approvals, inputs
from runs.events import record as events
from runs.exceptions import AlreadyAnswered, AlreadyDecided
from runs.models import Approval, InputRequest

from . import client_tools
from .catalogue import AGENT, CHAIN, SCOPES, Target
from .protocol import PARAMS, Fault, RpcRequest, need

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


def decidable(rpc: RpcRequest) -> Any:
    """Approvals of this person's own runs that this key may decide."""
    if not rpc.may(DECIDE):
        return Approval.objects.none()
    return Approval.objects.decidable_by(rpc.user).filter(run__principal_id=rpc.user.pk).select_related("run")


def open_ones(rpc: RpcRequest, run_id: UUID) -> dict[str, dict[str, JSON]]:
    """What the run and those below it wait for: name → request. Only what the client declared that it can answer."""
    requests: dict[str, dict[str, JSON]] = {}
    if rpc.can("elicitation") and not rpc.shows_cards:
        approvals = decidable(rpc).open().filter(of_tree(run_id)).order_by("id")
        requests |= {
            str(row.pk): {"method": "elicitation/create", "params": build_elicitation_params(row)} for row in approvals
        }
    rows = load_open_inputs(rpc, of_tree(run_id))
    for name, row in (build_named_requests(rows) if rpc.is_modern else {str(row.pk): row for row in rows}).items():
        if row.kind == InputRequest.Kind.FORM and rpc.can("elicitation"):
            requests[name] = {"method": "elicitation/create", "params": build_elicitation_params(row)}
        elif row.kind == InputRequest.Kind.TOOL and (request := client_tools.find_client_request(rpc, row)):
            requests[name] = request
    return requests


def load_open_inputs(rpc: RpcRequest, within: Q) -> list[InputRequest]:
    rows = InputRequest.objects.visible_to(rpc.user).open().filter(within)
    return list(rows.select_related("run").order_by("id"))


def build_named_requests(rows: list[InputRequest]) -> dict[str, InputRequest]:
    """By their key where it is given and no other open one has it, else by their id."""
    often = Counter(row.key for row in rows)
    return {row.key if row.key and often[row.key] == 1 else str(row.pk): row for row in rows}


def check_client(rpc: RpcRequest, target: Target) -> None:
    """Raises Fault if the target may ask for what this client did not declare. The person can be asked in Muster."""
    for grant in getattr(target.spec, "grants", ()):
        if grant.mode != "deny" and (path := client_tools.NEEDS.get(grant.tool)):
            need(rpc, path)


def build_elicitation_params(row: Approval | InputRequest) -> dict[str, JSON]:
    if isinstance(row, Approval):
        shown = render_result_value(row.arguments)[:LONGEST]
        because = f" ({row.reason})" if row.reason else ""
        return {
            "mode": "form",
            "message": f"Allow “{row.tool}”{because}? Arguments: {shown}",
            "requestedSchema": DECISION,
        }
    return {"mode": "form", "message": row.prompt or row.name, "requestedSchema": build_flat_schema(row.schema)}


def build_flat_schema(schema: JSON) -> dict[str, JSON]:
    """The schema of an answer as a flat form; what is not flat becomes one field."""
    if is_flat(schema):
        needed = {"required": schema["required"]} if schema.get("required") else {}
        return {"type": "object", "properties": schema["properties"], **needed}
    return {"type": "object", "properties": {"answer": build_flat_field(schema)}, "required": ["answer"]}


def is_flat(schema: JSON) -> bool:
    fields = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(fields, dict) and bool(fields) and all(is_simple(one) for one in fields.values())


def is_simple(schema: JSON) -> bool:
    if not isinstance(schema, dict) or "$ref" in schema:
        return False
    if schema.get("type") == "array":
        return is_choice(schema.get("items"))
    return schema.get("type") in PRIMITIVE


def is_choice(items: JSON) -> bool:
    """Whether a list is one of values to choose from."""
    return isinstance(items, dict) and (isinstance(items.get("enum"), list) or isinstance(items.get("anyOf"), list))


def build_flat_field(schema: JSON) -> dict[str, JSON]:
    if schema is None or is_simple(schema):
        return schema or {"type": "string"}
    return {"type": "string", "description": f"JSON that matches {render_result_value(schema)[:LONGEST]}"}


def record_client_answers(rpc: RpcRequest, responses: dict[str, JSON], run_id: UUID | None = None) -> None:
    """Take the client's answers. One that was answered or decided already, or is unknown, is left out.

    `run_id`: only questions of this run and those below it, which may be named by their keys. Raises Fault, Invalid.
    """
    answers = dict(iterate_checked_responses(responses))
    ids = {UUID(name): result for name, result in answers.items() if is_id(name)}
    within = of_tree(run_id) if run_id else Q(pk__in=ids)
    waiting: set[UUID] = set()
    for approval in decidable(rpc).open().filter(of_tree(run_id) if run_id else Q(), pk__in=ids):
        if decide_elicited_approval(rpc, approval, ids[approval.pk]):
            waiting.add(approval.run_id)
    may_answer = run_id is not None or any(rpc.may(SCOPES[kind]) for kind in (AGENT, CHAIN))
    requests = load_open_inputs(rpc, within) if may_answer else []
    names = {request.pk: name for name, request in build_named_requests(requests).items()}
    for request in requests:
        result = ids.get(request.pk) or (answers.get(names[request.pk]) if run_id else None)
        if result is not None and reply(rpc, request, result):
            waiting.add(request.run_id)
    for one in waiting:
        events.expect_watcher(one)


def iterate_checked_responses(responses: dict[str, JSON]) -> Iterator[tuple[str, dict[str, JSON]]]:
    for name, result in responses.items():
        if not isinstance(result, dict):
            raise Fault(PARAMS, f"The response to “{name[:80]}” must be an object.")
        yield name, result


def is_id(name: str) -> bool:
    try:
        return bool(UUID(name))
    except ValueError:
        return False


def get_elicitation_action(result: dict[str, JSON]) -> str:
    """Raises Fault."""
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise Fault(PARAMS, "The response to an elicitation must have an “action”: accept, decline or cancel.")
    return str(action)


def decide_elicited_approval(rpc: RpcRequest, approval: Approval, result: dict[str, JSON]) -> bool:
    """Whether this was the decision. `cancel` leaves it open: it can still be decided in Muster."""
    action = get_elicitation_action(result)
    if action == "cancel":
        return False
    content = result.get("content") if isinstance(result.get("content"), dict) else {}
    is_yes = action == "accept" and content.get("approve") is True
    note = content.get("note") if isinstance(content.get("note"), str) else ""
    try:
        approvals.decide_approval(approval, "approve" if is_yes else "deny", by=rpc.user, note=note, source="mcp")
    except AlreadyDecided:
        return False
    return True


def reply(rpc: RpcRequest, request: InputRequest, result: dict[str, JSON]) -> bool:
    """Whether this was the answer."""
    try:
        if request.kind == InputRequest.Kind.TOOL:
            inputs.answer_input_request(request, by=rpc.user, **client_tools.parse_client_answer(request, result))
            return True
        action = get_elicitation_action(result)
        if action == "decline":
            inputs.decline(request, by=rpc.user)
        elif action == "accept":
            inputs.answer_input_request(
                request, by=rpc.user, value=parse_form_answer(request.schema, result.get("content"))
            )
        return action != "cancel"
    except AlreadyAnswered:
        return False


def parse_form_answer(schema: JSON, content: JSON) -> JSON:
    """The answer that a form's content stands for."""
    if is_flat(schema):
        return content
    answer = content.get("answer") if isinstance(content, dict) else None
    if schema is None or is_simple(schema) or not isinstance(answer, str):
        return answer
    try:
        return parse_json_body(answer.encode())
    except ValueError as error:
        raise Fault(PARAMS, f"The answer is not JSON: {error}.")
