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
# Characters of arguments in a question.
LONGEST = 2000
DECISION = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Yes: the call is made. No: it is refused."},
        "note": {"type": "string", "title": "Note", "description": "The agent reads it.", "maxLength": 500},
    },
    "required": ["approve"],
}


def of_tree(run_id: UUID) -> Q:
    """Rows of the run and of those below it."""
    return Q(run_id=run_id) | Q(run__root_id=run_id)


def decidable(rpc: RpcRequest) -> Any:
    """Approvals of this person's own runs that this key may decide."""
    # A key for calls need not be one that decides.
    if not rpc.may(DECIDE):
        return Approval.objects.none()
    rows = Approval.objects.decidable_by(rpc.user).filter(run__principal_id=rpc.user.pk)
    return rows.select_related("run")


def open_ones(rpc: RpcRequest, run_id: UUID) -> dict[str, dict[str, JSON]]:
    """What the run and those below it wait for: name → request. Only what the client declared that it can answer."""
    requests: dict[str, dict[str, JSON]] = {}
    can_ask_person = rpc.can("elicitation")
    # A client that shows cards decides approvals in them.
    if can_ask_person and not rpc.shows_cards:
        for approval in decidable(rpc).open().filter(of_tree(run_id)).order_by("id"):
            requests[str(approval.pk)] = build_elicitation(approval)
    rows = load_open_inputs(rpc, of_tree(run_id))
    if rpc.is_modern:
        rows_by_name = build_named_requests(rows)
    else:
        rows_by_name = {str(row.pk): row for row in rows}
    for name, row in rows_by_name.items():
        if row.kind == InputRequest.Kind.FORM and can_ask_person:
            requests[name] = build_elicitation(row)
        elif row.kind == InputRequest.Kind.TOOL:
            request = client_tools.find_client_request(rpc, row)
            if request:
                requests[name] = request
    return requests


def load_open_inputs(rpc: RpcRequest, within: Q) -> list[InputRequest]:
    rows = InputRequest.objects.visible_to(rpc.user).open().filter(within)
    return list(rows.select_related("run").order_by("id"))


def build_named_requests(rows: list[InputRequest]) -> dict[str, InputRequest]:
    """By their key where it is given and no other open one has it, else by their id."""
    counts = Counter(row.key for row in rows)
    by_name = {}
    for row in rows:
        is_unique = bool(row.key) and counts[row.key] == 1
        name = row.key if is_unique else str(row.pk)
        by_name[name] = row
    return by_name


def check_client(rpc: RpcRequest, target: Target) -> None:
    """Raises Fault if the target may ask for what this client did not declare. The person can be asked in Muster."""
    for grant in getattr(target.spec, "grants", ()):
        capability = client_tools.NEEDS.get(grant.tool)
        if capability and grant.mode != "deny":
            need(rpc, capability)


def build_elicitation(row: Approval | InputRequest) -> dict[str, JSON]:
    return {"method": "elicitation/create", "params": build_elicitation_params(row)}


def build_elicitation_params(row: Approval | InputRequest) -> dict[str, JSON]:
    """The parameters of `elicitation/create`: a form with a flat schema, which is all that the protocol allows."""
    if isinstance(row, Approval):
        arguments = render_result_value(row.arguments)[:LONGEST]
        reason = f" ({row.reason})" if row.reason else ""
        message = f"Allow “{row.tool}”{reason}? Arguments: {arguments}"
        schema = DECISION
    else:
        message = row.prompt or row.name
        schema = build_flat_schema(row.schema)
    return {"mode": "form", "message": message, "requestedSchema": schema}


def build_flat_schema(schema: JSON) -> dict[str, JSON]:
    """The schema of an answer as a flat form; what is not flat becomes one field."""
    if not is_flat(schema):
        return {"type": "object", "properties": {"answer": build_flat_field(schema)}, "required": ["answer"]}
    form = {"type": "object", "properties": schema["properties"]}
    if schema.get("required"):
        form["required"] = schema["required"]
    return form


def is_flat(schema: JSON) -> bool:
    if not isinstance(schema, dict):
        return False
    fields = schema.get("properties")
    if not isinstance(fields, dict) or not fields:
        return False
    return all(is_simple(field) for field in fields.values())


def is_simple(schema: JSON) -> bool:
    if not isinstance(schema, dict) or "$ref" in schema:
        return False
    if schema.get("type") == "array":
        return is_choice(schema.get("items"))
    return schema.get("type") in PRIMITIVE


def is_choice(items: JSON) -> bool:
    """Whether a list is one of values to choose from."""
    if not isinstance(items, dict):
        return False
    return isinstance(items.get("enum"), list) or isinstance(items.get("anyOf"), list)


def build_flat_field(schema: JSON) -> dict[str, JSON]:
    if schema is None or is_simple(schema):
        return schema or {"type": "string"}
    return {"type": "string", "description": f"JSON that matches {render_result_value(schema)[:LONGEST]}"}


def record_client_answers(rpc: RpcRequest, responses: dict[str, JSON], run_id: UUID | None = None) -> None:
    """Take the client's answers. One that was answered or decided already, or is unknown, is left out.

    `run_id`: only questions of this run and those below it, which may be named by their keys. Raises Fault, Invalid.
    """
    answers = dict(iterate_checked_responses(responses))
    answers_by_id = {UUID(name): result for name, result in answers.items() if is_id(name)}
    # The runs that go on: their next events have somebody who waits for them.
    answered_runs: set[UUID] = set()

    open_approvals = decidable(rpc).open().filter(pk__in=answers_by_id)
    if run_id:
        open_approvals = open_approvals.filter(of_tree(run_id))
    for approval in open_approvals:
        if decide_elicited_approval(rpc, approval, answers_by_id[approval.pk]):
            answered_runs.add(approval.run_id)

    requests: list[InputRequest] = []
    if run_id is not None:
        requests = load_open_inputs(rpc, of_tree(run_id))
    elif any(rpc.may(SCOPES[kind]) for kind in (AGENT, CHAIN)):
        requests = load_open_inputs(rpc, Q(pk__in=answers_by_id))
    names = {request.pk: name for name, request in build_named_requests(requests).items()}
    for request in requests:
        result = answers_by_id.get(request.pk) or None
        if result is None and run_id is not None:
            result = answers.get(names[request.pk])
        if result is not None and reply(rpc, request, result):
            answered_runs.add(request.run_id)

    for run in answered_runs:
        events.expect_watcher(run)


def iterate_checked_responses(responses: dict[str, JSON]) -> Iterator[tuple[str, dict[str, JSON]]]:
    for name, result in responses.items():
        if not isinstance(result, dict):
            raise Fault(PARAMS, f"The response to “{name[:80]}” must be an object.")
        yield name, result


def is_id(name: str) -> bool:
    try:
        UUID(name)
    except ValueError:
        return False
    return True


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
    content = result.get("content")
    if not isinstance(content, dict):
        content = {}
    # To send the form is not to approve: its box must be ticked.
    is_approved = action == "accept" and content.get("approve") is True
    decision = "approve" if is_approved else "deny"
    note = content.get("note")
    if not isinstance(note, str):
        note = ""
    try:
        approvals.decide_approval(approval, decision, by=rpc.user, note=note, source="mcp")
    except AlreadyDecided:
        return False
    return True


def reply(rpc: RpcRequest, request: InputRequest, result: dict[str, JSON]) -> bool:
    """Whether this was the answer."""
    try:
        if request.kind == InputRequest.Kind.TOOL:
            answer = client_tools.parse_client_answer(request, result)
            inputs.answer_input_request(request, by=rpc.user, **answer)
            return True
        action = get_elicitation_action(result)
        # The question stays open.
        if action == "cancel":
            return False
        if action == "decline":
            inputs.decline(request, by=rpc.user)
        else:
            value = parse_form_answer(request.schema, result.get("content"))
            inputs.answer_input_request(request, by=rpc.user, value=value)
        return True
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
