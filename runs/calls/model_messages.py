"""The prompt of a model call: instructions, the session within its budget, the run's own turns."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import UUIDField

from agents.models import AgentSpec
from plumbing.statements import Select
from runs.intake import parts
from runs.intake.parts import parse_run_ids
from runs.models import Message, ModelCall, Run, ToolCallRecord
from runs.models.session import NOT_SHOWN
from runs.rules import untrusted_tags

REMEMBERED_LIMIT = 2_000  # characters of an earlier result that later messages of the session show again
RESULT_LIMIT = 40_000  # characters of one tool result shown to a model; the row keeps all of it
CHARS_PER_TOKEN = 4
TOLD = ("role", "content", "name", "tool_calls", "tool_call_id")
OF_RUN = Select(
    lambda at: Message.objects.filter(session_id=at.session, run_id=at.run).order_by("seq"),
    session=UUIDField(),
    run=UUIDField(),
)
ANSWERS = Select(
    lambda at: ModelCall.objects.filter(run_id=at.run, error__isnull=True).order_by("turn", "id"), run=UUIDField()
)
CALLS = Select(
    lambda at: ToolCallRecord.objects.filter(run_id=at.run, parent_call=None).order_by("id"), run=UUIDField()
)


def opening(run: Run, spec: AgentSpec, memory: str = "") -> list[dict[str, Any]]:
    """Everything up to and including the message that started this run."""
    session = run.session
    messages = [{"role": "system", "content": instructions(run, spec, memory)}]
    if session is None:
        messages.append({"role": "user", "content": json.dumps(run.input)})
        return messages
    own = own_messages(run)
    files = parts.load_message_files(own, run.principal_id)
    current = [as_message(message, files) for message in own]
    has_earlier = session.last_seq > len(current) and spec.session_context != "none"
    if has_earlier or not own:  # without a message of its own the run goes on from what came before
        messages += list_earlier_messages(run, spec, own)
    return messages + current


def as_told(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages for a program outside, without what only the normaliser of requests needs."""
    messages_of_program = []
    for message in messages:
        messages_of_program.append({name: value for name, value in message.items() if name in TOLD})
    return messages_of_program


def instructions(run: Run, spec: AgentSpec, memory: str = "") -> str:
    session = run.session
    is_session_untrusted = session is not None and session.has_untrusted
    sections = [spec.system_prompt]
    if session is not None and session.summary and spec.session_context != "none":
        summary = mark_if(session.has_untrusted, session.summary, "summary")
        sections.append(f"Summary of the conversation so far:\n{summary}")
    if memory:
        sections.append(memory)
    context = run.policy.get("context")
    if context:
        sections.append(f"Context:\n{mark_if(run.has_untrusted, context, 'context')}")
    if run.input is not None:
        text = json.dumps(run.input, ensure_ascii=False)
        sections.append(f"Input:\n{mark_if(run.has_untrusted, text, 'input')}")
    if run.has_untrusted or is_session_untrusted:
        sections.append(untrusted_tags.NOTE)
    if spec.output_schema:
        schema = json.dumps(spec.output_schema, ensure_ascii=False)
        sections.append(f"Answer only with JSON that matches this JSON Schema:\n{schema}")
    return "\n\n".join(section for section in sections if section)


def mark_if(is_untrusted: bool, text: str, name: str) -> str:
    """The text, in the tags of untrusted content if it is that."""
    return untrusted_tags.mark_untrusted(text, name) if is_untrusted else text


def own_messages(run: Run) -> list[Message]:
    """The user's message of this run (and, in an interrupted session, nothing else)."""
    own = []
    for message in OF_RUN.all(session=run.session_id, run=run.pk):
        if message.role != Message.Role.ASSISTANT and NOT_SHOWN not in message.metadata:
            own.append(message)
    return own


def list_earlier_messages(run: Run, spec: AgentSpec, own: list[Message]) -> list[dict[str, Any]]:
    """The last messages before this run that fit into the budget of messages and tokens.

    Without those of runs that this one replaces (runs/intake/retry.py), and without later messages
    that wait for their turn (`on_busy: enqueue`).
    """
    session = run.session
    assert session is not None
    replaced_runs = parse_run_ids(run.metadata.get("instead_of"))
    last_seq = own[0].seq if own else session.last_seq
    rows = Message.objects.filter(session_id=session.pk, seq__gt=session.summarised_to)
    rows = rows.exclude(run_id__in=[run.pk, *replaced_runs])
    rows = rows.exclude(role=Message.Role.USER, seq__gt=last_seq)
    rows = rows.order_by("-seq")[: most_messages(spec)]
    budget = spec.context_tokens * CHARS_PER_TOKEN
    fitting = list(iterate_fitting_messages(newest_first(rows), budget, run.principal_id))
    messages = []
    for shown in reversed(fitting):
        messages += shown
    return messages


def newest_first(rows: Iterable[Message]) -> list[Message]:
    """By run: a reply that arrived while the next message waited belongs before that message."""
    rows = list(rows)
    begins: dict[Any, int] = {}
    for row in rows:  # newest first, so that the oldest run with a message decides
        begins[row.run_id or row.pk] = row.seq

    def find_place(row: Message) -> tuple[int, int]:
        return begins[row.run_id or row.pk], row.seq

    return sorted(rows, key=find_place, reverse=True)


def most_messages(spec: AgentSpec) -> int:
    """How many earlier messages are shown; with a summary also those waiting for its next update."""
    if spec.session_context != "summary":
        return spec.context_messages
    waiting = max(spec.context_messages // 2, 1)
    return spec.context_messages + waiting


def iterate_fitting_messages(rows: Iterable[Message], budget: int, owner_id: Any) -> Iterator[list[dict[str, Any]]]:
    """Each row, newest first, with its calls as shown to a model, while `budget` characters remain."""
    rows = list(rows)
    files = parts.load_message_files(rows, owner_id)
    for row in rows:
        shown = earlier_calls(row)
        if not is_silent(row):
            shown.append(as_message(row, files))
        budget -= sum(measure_model_message(message) for message in shown)
        if budget < 0:
            return
        yield shown


def earlier_calls(row: Message) -> list[dict[str, Any]]:
    """Tool calls that led to an earlier reply, as the model made them."""
    if row.role != Message.Role.ASSISTANT or not row.tool_calls:
        return []
    calls, results = [], []
    for call in row.tool_calls:
        id, name = call["id"], call["name"]
        calls.append({"id": id, "name": name, "arguments": call["arguments"]})
        results.append({"role": "tool", "tool_call_id": id, "name": name, "content": call.get("result", "")})
    return [{"role": "assistant", "content": "", "tool_calls": calls, "is_earlier": True}, *results]


def is_silent(row: Message) -> bool:
    """Whether there is nothing to show of it: models refuse an empty message of the assistant."""
    if NOT_SHOWN in row.metadata:
        return True
    if row.role != Message.Role.ASSISTANT:
        return False
    return not any(part.get("text") or part.get("type") != "text" for part in row.content)


def as_message(row: Message, files: parts.Files) -> dict[str, Any]:
    return {"role": row.role, "content": parts.render_content(row, files)}


def measure_model_message(message: dict[str, Any]) -> int:
    calls = json.dumps(message.get("tool_calls", ""))
    return parts.measure_content(message["content"]) + len(calls)


def answers(run: Run) -> list[ModelCall]:
    """The model's answers in this run so far, one for each turn."""
    return ANSWERS.all(run=run.pk)


def list_model_calls(run: Run) -> list[ToolCallRecord]:
    """The calls that the model asked for in this run so far, in their order."""
    return CALLS.all(run=run.pk)


def turns(run: Run, answered: Iterable[ModelCall]) -> list[dict[str, Any]]:
    """This run's own turns: the model's texts, and the results of its calls as their rows are now."""
    records: dict[int, list[ToolCallRecord]] = {}
    for record in list_model_calls(run):
        records.setdefault(record.turn, []).append(record)
    warned = run.policy.get("warned") or {}
    shown: list[dict[str, Any]] = []
    for call in answered:
        response = call.response or {}
        of_turn = records.get(call.turn, [])
        shown += turn_messages(response.get("text", ""), of_turn, response.get("kept"))
        note = response.get("note")
        if note:
            shown.append({"role": "user", "content": note})
        if warned.get("turn") == call.turn:
            shown.append({"role": "user", "content": warned["reason"]})
    return shown


def turn_messages(
    text: str, records: Iterable[ToolCallRecord], kept: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """`kept`: what the model's server wants back with this turn."""
    calls, results = [], []
    for record in records:
        calls.append({"id": call_id(record), "name": record.name, "arguments": record.arguments})
        results.append(result_message(record))
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if kept:
        message["kept"] = kept
    if calls:
        message["tool_calls"] = calls
    return [message, *results]


def call_id(record: ToolCallRecord) -> str:
    return record.model_call_id or str(record.pk)


def result_message(record: ToolCallRecord) -> dict[str, Any]:
    content = result_text(record)
    return {"role": "tool", "tool_call_id": call_id(record), "name": record.name, "content": content}


def result_text(record: ToolCallRecord, limit: int = RESULT_LIMIT) -> str:
    """A result as shown to a model: cut if it is long (and saying so), marked if it is untrusted."""
    shown = record.result
    if record.outcome != ToolCallRecord.Outcome.OK:
        shown = {"error": record.error or {"code": record.outcome}}
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    if len(text) > limit:
        text = f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"
    return mark_if(record.untrusted, text, record.name)


def remembered_calls(records: Iterable[ToolCallRecord]) -> list[dict[str, Any]]:
    """A run's calls in the short form that is stored with its reply for later turns."""
    remembered = []
    for record in records:
        result = result_text(record, REMEMBERED_LIMIT)
        call = {"id": call_id(record), "name": record.name, "arguments": record.arguments, "result": result}
        remembered.append(call)
    return remembered
