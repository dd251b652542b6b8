"""The state of a thread: the messages of a session in LangChain's form, read from its rows.

A turn of the model is one `ai` message, and each of its calls a `tool` message. The stream makes
the same messages with the same ids.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import QuerySet

from gateway.reading import result_text
from plumbing.statements import Select
from registry.llm.answer_builder import name_cut
from runs.calls.call_records import denied_data, finished_data
from runs.models import Message, ModelCall, Run, Session, ToolCallRecord

JSON = Any


def build_human_message(id: str, content: JSON) -> dict[str, JSON]:
    return {
        "type": "human",
        "id": id,
        "content": content,
        "name": None,
        "additional_kwargs": {},
        "response_metadata": {},
    }


def build_ai_message(id: str, text: str) -> dict[str, JSON]:
    return {
        "type": "ai",
        "id": id,
        "content": text,
        "name": None,
        "additional_kwargs": {},
        "response_metadata": {},
        "tool_calls": [],
        "invalid_tool_calls": [],
    }


def write_finish(message: dict[str, JSON], finish: str) -> None:
    """Write into a complete message why the model's answer ended; `finish` is the word of its server."""
    ended = "tool_calls" if message["tool_calls"] else "stop"
    message["response_metadata"] = {"finish_reason": name_cut(finish) or ended}


def build_tool_call(id: str, name: str, arguments: JSON) -> dict[str, JSON]:
    return {"id": id, "name": name, "args": arguments, "type": "tool_call"}


def build_tool_message(call: str, name: str, content: str, is_ok: bool) -> dict[str, JSON]:
    return {
        "type": "tool",
        "id": f"result-{call}",
        "tool_call_id": call,
        "name": name,
        "content": content,
        "status": "success" if is_ok else "error",
        "artifact": None,
        "additional_kwargs": {},
        "response_metadata": {},
    }


def build_ai_id(run: UUID, turn: int) -> str:
    return f"run-{run}-{turn}"


def serialize_langgraph_part(part: dict[str, JSON]) -> dict[str, JSON]:
    """A part of a message as a content block of LangChain. What it has no block for is named in text."""
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part.get("text", "")}
    if kind == "image" and part.get("url"):
        return {"type": "image_url", "image_url": {"url": part["url"]}}
    if kind == "image":
        data = part.get("data", "")
        return {"type": "image", "source_type": "base64", "data": data, "mime_type": part.get("media_type", "")}
    name = part.get("name") or part.get("file", "")
    return {"type": "text", "text": f"[{kind}: {name}]"}


def serialize_message_content(row: Message) -> JSON:
    """Plain text as a string, other parts as LangChain's content blocks."""
    if all(part.get("type") == "text" for part in row.content):
        return row.text
    return [serialize_langgraph_part(part) for part in row.content]


# -- messages -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Work:
    """What the model said and called in a run."""

    turns: list[ModelCall] = field(default_factory=list)
    calls: dict[int, list[ToolCallRecord]] = field(default_factory=lambda: defaultdict(list))


def load_runs_work(runs: Iterable[UUID]) -> dict[UUID, Work]:
    """Two queries, however many runs."""
    ids = list(runs)
    turns = filter_model_turns(ModelCall.objects.filter(run__in=ids))
    calls = filter_top_calls(ToolCallRecord.objects.filter(run__in=ids))
    return build_runs_work(turns, calls)


def filter_model_turns(rows: QuerySet[ModelCall]) -> QuerySet[ModelCall]:
    return rows.filter(error__isnull=True).order_by("id").only("run_id", "turn", "response")


def filter_top_calls(rows: QuerySet[ToolCallRecord]) -> QuerySet[ToolCallRecord]:
    return rows.filter(parent_call=None).order_by("id")


def build_runs_work(turns: Iterable[ModelCall], calls: Iterable[ToolCallRecord]) -> dict[UUID, Work]:
    work = defaultdict[UUID, Work](Work)
    for turn in turns:
        work[turn.run_id].turns.append(turn)
    for call in calls:
        work[call.run_id].calls[call.turn].append(call)
    return work


def iterate_run_messages(run: UUID, work: Work) -> Iterator[dict[str, JSON]]:
    """Each answer of the model, and the results of its calls behind it."""
    for turn in work.turns:
        response = turn.response or {}
        calls = work.calls.get(turn.turn, [])
        message = build_ai_message(build_ai_id(run, turn.turn), response.get("text", ""))
        message["tool_calls"] = [build_tool_call(str(call.pk), call.name, call.arguments) for call in calls]
        write_finish(message, response.get("finish", ""))
        yield message
        # A call that waits has no result yet.
        for call in calls:
            if call.outcome:
                yield convert_tool_record(call)


def convert_tool_record(call: ToolCallRecord) -> dict[str, JSON]:
    """The result of a call, or why it was not made."""
    is_denied = call.outcome == ToolCallRecord.Outcome.DENIED
    data = denied_data(call) if is_denied else finished_data(call)
    return build_tool_message(str(call.pk), call.name, result_text(data), call.outcome == "ok")


def iterate_row_messages(row: Message) -> Iterator[dict[str, JSON]]:
    """A message whose run is gone, such as one in a copied session: its calls are kept with it."""
    if row.role == Message.Role.USER:
        yield build_human_message(str(row.pk), serialize_message_content(row))
        return
    if row.tool_calls:
        message = build_ai_message(f"{row.pk}-calls", "")
        message["tool_calls"] = [
            build_tool_call(call["id"], call["name"], call["arguments"]) for call in row.tool_calls
        ]
        yield message
        for call in row.tool_calls:
            yield build_tool_message(call["id"], call["name"], str(call.get("result", "")), True)
    yield build_ai_message(str(row.pk), row.text)


@dataclass(slots=True, eq=False)
class Checkpoint:
    """The messages that one row of a session stands for, and the row's id: it is a checkpoint."""

    id: UUID
    at: Any
    run: UUID | None
    messages: list[dict[str, JSON]]
    is_reply: bool = False


def load_checkpoints(sessions: Iterable[Session], *, with_work: bool = True) -> dict[UUID, list[Checkpoint]]:
    """The messages of each session, in order. Three queries, however many sessions."""
    rows = list(filter_spoken_rows(Message.objects.filter(session__in=list(sessions))))
    work: dict[UUID, Work] = {}
    if with_work:
        work = load_runs_work({row.run_id for row in rows if row.run_id})
    return build_checkpoints(rows, work)


def filter_spoken_rows(rows: QuerySet[Message]) -> QuerySet[Message]:
    spoken = rows.filter(role__in=(Message.Role.USER, Message.Role.ASSISTANT))
    return spoken.order_by("session_id", "seq").defer("metadata")


def build_checkpoints(rows: Iterable[Message], work: dict[UUID, Work]) -> dict[UUID, list[Checkpoint]]:
    """The checkpoints of each session. A run's reply stands behind the message that it answers."""
    histories = defaultdict[UUID, list[Checkpoint]](list)
    # The message of each run, in its session.
    starts: dict[UUID, tuple[list[Checkpoint], Checkpoint]] = {}
    for row in rows:
        checkpoints = histories[row.session_id]
        if row.role == Message.Role.USER:
            checkpoint = Checkpoint(row.pk, row.created_at, row.run_id, list(iterate_row_messages(row)))
            checkpoints.append(checkpoint)
            if row.run_id:
                starts[row.run_id] = checkpoints, checkpoint
        elif row.run_id in starts:  # messages that were sent meanwhile come after it
            checkpoints, question = starts.pop(row.run_id)
            insert_after(checkpoints, question, build_reply_checkpoint(row, work.get(row.run_id)))
        else:
            checkpoints.append(build_reply_checkpoint(row, None))
    # What is in progress, or ended without a reply: the run's id is the checkpoint.
    for run, (checkpoints, question) in starts.items():
        if run not in work:
            continue
        messages = list(iterate_run_messages(run, work[run]))
        if messages:
            insert_after(checkpoints, question, Checkpoint(run, question.at, run, messages))
    return histories


def insert_after(checkpoints: list[Checkpoint], question: Checkpoint, answer: Checkpoint) -> None:
    place = checkpoints.index(question)
    checkpoints.insert(place + 1, answer)


def build_reply_checkpoint(row: Message, work: Work | None) -> Checkpoint:
    """A run's reply, with all that the run did before."""
    if work is None:
        return Checkpoint(row.pk, row.created_at, row.run_id, list(iterate_row_messages(row)), is_reply=True)
    messages = list(iterate_run_messages(row.run_id, work))
    last = messages[-1] if messages else None
    # The reply of a run that ended without an answer of the model is in no call of it.
    if last is None or last["type"] != "ai" or last["content"] != row.text:
        messages.append(build_ai_message(build_ai_id(row.run_id, 0), row.text))
    return Checkpoint(row.pk, row.created_at, row.run_id, messages, is_reply=True)


def build_thread_values(checkpoints: Iterable[Checkpoint]) -> dict[str, JSON]:
    messages: list[JSON] = []
    for checkpoint in checkpoints:
        messages += checkpoint.messages
    return {"messages": messages}


def load_thread_messages(session: Session) -> list[dict[str, JSON]]:
    """Those of one session. Every run asks for them, so the statements are compiled once."""
    rows = ROWS.all(session=session.pk)
    work: dict[UUID, Work] = {}
    if any(row.run_id for row in rows):
        work = build_runs_work(TURNS.all(session=session.pk), CALLS.all(session=session.pk))
    checkpoints = build_checkpoints(rows, work)[session.pk]
    return build_thread_values(checkpoints)["messages"]


ROWS = Select(lambda at: filter_spoken_rows(Message.objects.filter(session=at.session)), session=models.UUIDField())
TURNS = Select(
    lambda at: filter_model_turns(ModelCall.objects.filter(run__session=at.session)), session=models.UUIDField()
)
CALLS = Select(
    lambda at: filter_top_calls(ToolCallRecord.objects.filter(run__session=at.session)), session=models.UUIDField()
)


def find_last_run(session: Session) -> Run | None:
    """The newest run of the thread, without runs below it."""
    rows = Run.objects.filter(session=session).exclude(parent__session=session)
    return rows.select_related("agent").order_by("-id").first()
