"""What waiting runs wait for, in one list: approvals, questions, and tools that the caller executes.
Several answers are sent at once, all of them or none.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any
from uuid import UUID

from django.db import transaction

from agents import schema
from agents.exceptions import Invalid, NotFound
from agents.http.pagination import ROWS_AT_ONCE
from agents.http.sizes import PAGE_BYTES, cut_fields, measure
from plumbing import clock
from runs.events import record as events
from runs.models import Approval, InputRequest, Run

from . import approvals, inputs

JSON = Any
DECISION = {
    "type": "object",
    "properties": {
        "decision": {"enum": ["approve", "deny"]},
        "arguments": {"type": ["object", "null"]},
        "note": {"type": "string", "maxLength": 500},
    },
    "required": ["decision"],
    "additionalProperties": False,
}


def list_open_requests(runs: Iterable[Run]) -> dict[UUID, list[dict[str, JSON]]]:
    """The open requests of each run; for the first run of a tree those of all runs below it.

    At most three queries, however many runs; none if no run waits for an answer. Once they take as much as a page of
    a list, the large fields of the others are cut.
    """
    requests = defaultdict[UUID, list[dict[str, JSON]]](list)
    waiting = [run for run in runs if run.waiting_for and not run.is_done]
    if not waiting:
        return requests
    above = map_runs_to_roots(waiting)
    still = {"run__in": above, "expires_at__gt": clock.near()}
    questions = InputRequest.objects.open().filter(**still).order_by("id")
    to_approve = Approval.objects.open().filter(**still).order_by("id")
    # Each may be large, so that not all of them are in memory at once.
    questions_json = map(request_json, questions.iterator(chunk_size=ROWS_AT_ONCE))
    approvals_json = map(approval_json, to_approve.iterator(chunk_size=ROWS_AT_ONCE))
    for entry in within_room(chain(questions_json, approvals_json)):
        requests[UUID(entry["run"])].append(entry)
    for run, root in above.items():
        if root != run:
            requests[root] += requests[run]
    return requests


def within_room(entries: Iterable[dict[str, JSON]]) -> Iterator[dict[str, JSON]]:
    room = PAGE_BYTES
    for entry in entries:
        room -= measure(entry, PAGE_BYTES)
        if room < 0:
            entry = cut_fields(entry)
        yield entry


def map_runs_to_roots(runs: list[Run]) -> dict[UUID, UUID]:
    """The run under which each run is listed: itself, or the first run of its tree if that one is asked for."""
    above = {run.pk: run.pk for run in runs}
    roots = [run.pk for run in runs if run.root_id is None]
    if roots:
        below = Run.objects.live().filter(root__in=roots)
        above.update(below.values_list("pk", "root_id"))
    return above


def request_json(request: InputRequest) -> dict[str, JSON]:
    is_tool = request.kind == InputRequest.Kind.TOOL
    return {
        "id": str(request.pk),
        "run": str(request.run_id),
        "kind": "tool" if is_tool else "question",
        "name": request.name,
        "arguments": request.arguments if is_tool else None,
        "schema": request.schema,
        "text": request.prompt,
        "expires_at": events.format_moment(request.expires_at),
    }


def approval_json(approval: Approval) -> dict[str, JSON]:
    return {
        "id": str(approval.pk),
        "run": str(approval.run_id),
        "kind": "approval",
        "name": approval.tool,
        "arguments": approval.arguments,
        "schema": DECISION,
        "text": approval.reason,
        "expires_at": events.format_moment(approval.expires_at),
    }


def find_requests(run: Run, ids: Collection[UUID], user: Any) -> tuple[dict[UUID, InputRequest], dict[UUID, Approval]]:
    """The requests with these ids of this run, or of the runs below it, also closed ones. Raises NotFound."""
    tree = [run.pk]
    if run.root_id is None:
        tree += Run.objects.filter(root=run).values_list("pk", flat=True)
    meant = {"pk__in": ids, "run__in": tree}
    requests = InputRequest.objects.visible_to(user).filter(**meant).select_related("run").in_bulk()
    decided = Approval.objects.visible_to(user).filter(**meant).select_related("run").in_bulk()
    missing = [str(id) for id in ids if id not in requests and id not in decided]
    if missing:
        raise unknown(missing)
    return requests, decided


def unknown(ids: Iterable[str]) -> NotFound:
    details = [
        {"field": f"inputs.{one[:80]}", "code": "unknown_input", "message": "the run has never waited for it"}
        for one in islice(ids, 20)
    ]
    hint = "GET the run: “pending” lists what it waits for."
    return NotFound("The run does not wait for this.", code="unknown_input", hint=hint, details=details)


@transaction.atomic
def send_answers(
    requests: Mapping[UUID, InputRequest],
    decided: Mapping[UUID, Approval],
    answers: Mapping[UUID, dict[str, JSON]],
    *,
    by: Any,
    source: str = "",
) -> None:
    """Send all these answers, {"result"}, {"answer"} or {"error": {"code", "message"}} by id, or none.

    Raises Invalid, Forbidden, AlreadyAnswered, AlreadyDecided.
    """
    rows: list[InputRequest | Approval] = [*requests.values(), *decided.values()]
    rows.sort(key=lambda row: (row.run_id, row.pk))  # runs are locked in one order
    for row in rows:
        answer = answers[row.pk]
        if isinstance(row, Approval):
            decision = read_decision(row, answer)
            approvals.decide_approval(row, by=by, source=source, **decision)
        else:
            value = answer["result"] if "result" in answer else answer.get("answer")
            inputs.answer_input_request(row, by=by, value=value, error=answer.get("error"))


def read_decision(approval: Approval, fields: Mapping[str, JSON]) -> dict[str, JSON]:
    """The arguments of `approvals.decide_approval`. A plain “approve” or “deny” is a decision too. Raises Invalid."""
    answer = fields.get("answer")
    decision = {"decision": answer} if isinstance(answer, str) else answer
    if schema.validate(DECISION, decision):
        message = 'An approval is answered with {"answer": {"decision": "approve" or "deny"}}.'
        detail = {"field": f"inputs.{approval.pk}", "code": "not_a_decision", "message": message}
        raise Invalid(message, code="invalid_answer", details=[detail])
    return dict(decision)
