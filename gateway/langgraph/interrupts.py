"""What a run waits for, as LangGraph's interrupts, and `Command(resume=…)` as their answer.

Approvals have the form of LangChain's human-in-the-loop middleware, which Agent Chat UI and Agent
Inbox draw: all that are open in a run are one interrupt, decided together and in order. A question
to the person has the same form, with the answer as an argument to edit, and accepts a plain value.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agents.exceptions import Conflict
from agents.http.authentication import require_scope
from agents.models.key import DECIDE
from gateway import turns
from gateway.reading import bare
from gateway.turns import Turn
from runs.models import Approval, InputRequest, Run

from .views import refuse_langgraph_field

JSON = Any
# The argument of a question that holds its answer.
ANSWER = "answer"
# The decisions of Agent Inbox before 1.0.
OLD_FORM = {"accept": "approve", "edit": "edit", "ignore": "reject", "response": "reject"}


@dataclass(slots=True)
class Interrupt:
    id: str
    value: dict[str, JSON]
    approvals: list[Approval] = field(default_factory=list)
    request: InputRequest | None = None

    def as_json(self) -> dict[str, JSON]:
        interrupt: dict[str, JSON] = {"id": self.id, "value": self.value}
        if self.request is not None and isinstance(self.request.schema, dict):
            interrupt["response_schema"] = self.request.schema
        return interrupt


def load_open_interrupts(runs: Iterable[UUID]) -> dict[UUID, list[Interrupt]]:
    """The open interrupts of these runs. Two queries, however many runs."""
    ids = list(runs)
    interrupts = defaultdict[UUID, list[Interrupt]](list)
    if not ids:
        return interrupts
    approvals_by_run = defaultdict[UUID, list[Approval]](list)
    for approval in Approval.objects.open().filter(run__in=ids).select_related("run").order_by("id"):
        approvals_by_run[approval.run_id].append(approval)
    for run, approvals in approvals_by_run.items():
        id = approvals[0].pk.hex
        interrupts[run].append(Interrupt(id, approval_value(approvals), approvals=approvals))
    for request in InputRequest.objects.open().filter(run__in=ids).order_by("id"):
        interrupts[request.run_id].append(Interrupt(request.pk.hex, request_value(request), request=request))
    return interrupts


def approval_value(approvals: list[Approval]) -> dict[str, JSON]:
    """Approvals in the form of the interrupts that LangChain's middleware makes."""
    action_requests = []
    review_configs = []
    for one in approvals:
        description = f"{one.tool}: {one.reason}"
        action_requests.append({"name": one.tool, "args": one.arguments, "description": description})
        review_configs.append({"action_name": one.tool, "allowed_decisions": ["approve", "edit", "reject"]})
    return {"action_requests": action_requests, "review_configs": review_configs}


def request_value(request: InputRequest) -> dict[str, JSON]:
    """A call of the caller's tool, or a question in the form of a decision about its answer."""
    if request.kind == InputRequest.Kind.TOOL:
        return {"kind": "tool", "name": request.name, "args": request.arguments, "tool_call_id": str(request.call_id)}
    answer_schema = request.schema if isinstance(request.schema, dict) else {}
    form = {"type": "object", "properties": {ANSWER: answer_schema}, "required": [ANSWER]}
    action = {"name": request.name, "args": {ANSWER: ""}, "description": request.prompt}
    review = {"action_name": request.name, "allowed_decisions": ["edit", "reject"], "args_schema": form}
    return {
        "kind": "question",
        "question": request.prompt,
        "schema": request.schema,
        "action_requests": [action],
        "review_configs": [review],
    }


# -- answers --------------------------------------------------------------------------------------------------------


def resume_interrupted_run(request: Any, run: Run | None, value: JSON) -> Turn:
    """Answer what the run waits for. Raises Conflict if it waits for nothing, Invalid, Forbidden."""
    waiting: list[Interrupt] = []
    if run is not None:
        waiting = load_open_interrupts([run.pk])[run.pk]
    if not waiting:
        raise Conflict("This thread waits for no answer.", code="not_interrupted", hint="Send “input” instead.")
    results: dict[UUID, JSON] = {}
    declined: list[UUID] = []
    decisions: list[tuple[Approval, dict[str, JSON]]] = []
    for interrupt, answer in list_interrupt_answers(waiting, value):
        if interrupt.request is None:
            answers = parse_interrupt_decisions(answer, len(interrupt.approvals))
            for approval, one in zip(interrupt.approvals, answers, strict=True):
                decisions.append((approval, convert_interrupt_decision(one)))
        elif is_rejection(answer):
            declined.append(interrupt.request.call_id)
        else:
            results[interrupt.request.call_id] = plain_answer(answer)
    # To answer a question is less than to decide an approval.
    if decisions:
        require_scope(request, DECIDE)
    return turns.answer_waiting_run(request.user, results, declined=declined, decisions=decisions, source="langgraph")


def list_interrupt_answers(waiting: list[Interrupt], value: JSON) -> list[tuple[Interrupt, JSON]]:
    """{id: answer} answers several; any other value answers the only one."""
    by_id = {interrupt.id: interrupt for interrupt in waiting}
    # Some clients write the ids with hyphens.
    if isinstance(value, dict) and value and all(bare(name) in by_id for name in value):
        return [(by_id[bare(name)], answer) for name, answer in value.items()]
    if len(waiting) > 1:
        message = f"The thread has several interrupts: send {{id: answer}} for {', '.join(by_id)}."
        raise refuse_langgraph_field("command.resume", message)
    return [(waiting[0], value)]


def parse_interrupt_decisions(answer: JSON, count: int) -> list[dict[str, JSON]]:
    """One decision for each approval, in their order."""
    if isinstance(answer, bool):
        kind = "approve" if answer else "reject"
        return [{"type": kind}] * count
    decisions = answer
    if isinstance(answer, dict):
        # A decision without the list around it is the only one.
        decisions = [answer] if "type" in answer else answer.get("decisions")
    if not isinstance(decisions, list) or not all(isinstance(one, dict) for one in decisions):
        message = 'Send {"decisions": [{"type": "approve"}, …]}: approve, edit or reject.'
        raise refuse_langgraph_field("command.resume", message)
    if len(decisions) != count:
        raise refuse_langgraph_field("command.resume", f"Send {count} decisions, one for each action, in their order.")
    return decisions


def convert_interrupt_decision(one: dict[str, JSON]) -> dict[str, JSON]:
    """A decision of the protocol as arguments of `runs.calls.approvals.decide_approval`."""
    kind = one.get("type")
    kind = OLD_FORM.get(str(kind), kind)
    if kind == "approve":
        return {"decision": "approve"}
    if kind == "reject":
        note = one.get("message") or one.get("args")
        return {"decision": "deny", "note": note if isinstance(note, str) else ""}
    # To edit the arguments is to approve the call with others.
    if kind == "edit":
        arguments = find_edited_arguments(one)
        if isinstance(arguments, dict):
            return {"decision": "approve", "arguments": arguments}
    message = "A decision's type is approve, edit (with “edited_action”) or reject."
    raise refuse_langgraph_field("command.resume", message)


def find_edited_arguments(one: JSON) -> JSON:
    action = one.get("edited_action") or one.get("args")
    if not isinstance(action, dict):
        return None
    return action.get("args")


def is_rejection(answer: JSON) -> bool:
    if not isinstance(answer, dict):
        return False
    kinds = [one.get("type") for one in list_answer_decisions(answer)]
    return kinds == ["reject"]


def plain_answer(answer: JSON) -> JSON:
    """The value itself, or the argument that a person edited."""
    if not isinstance(answer, dict):
        return answer
    decisions = list_answer_decisions(answer)
    if len(decisions) != 1 or decisions[0].get("type") != "edit":
        return answer
    arguments = find_edited_arguments(decisions[0])
    if isinstance(arguments, dict):
        return arguments.get(ANSWER)
    return arguments


def list_answer_decisions(answer: dict[str, JSON]) -> list[dict[str, JSON]]:
    decisions = answer.get("decisions")
    if not isinstance(decisions, list):
        return []
    return [one for one in decisions if isinstance(one, dict)]
