"""AG-UI 1.0: a frontend such as CopilotKit runs an agent and draws its events.

A thread is a session of the person: one of Muster's by its id, or one named by the frontend. A run
that waits for the person ends with interrupts, and `resume` answers them; a tool of the frontend
ends it with the call, and the tool's message is the result.
"""

from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ag_ui.core import AssistantMessage, DeveloperMessage, RunAgentInput, SystemMessage, ToolMessage, UserMessage
from django.db.models import CharField, IntegerField, UUIDField
from drf_spectacular.utils import extend_schema
from pydantic import ValidationError

from agents.exceptions import Invalid, NotFound
from agents.http.authentication import find_key, require_scope
from agents.http.pagination import read_page
from agents.http.viewsets import APIView
from agents.models.key import DECIDE
from plumbing.statements import Select
from runs.events.connection_limits import count_user_stream
from runs.models import Approval, Message, Run, Session

from . import histories, turns
from .histories import SentMessage
from .reading import (
    APPROVAL,
    BEGIN,
    CALL,
    CLOSE,
    QUESTION,
    RESULT,
    TEXT,
    Reading,
    Step,
    render_result_value,
    result_text,
)
from .sse import HEARTBEAT, build_sse_response, sse
from .turns import Turn

JSON = Any
# Of a thread that is read again: the newest ones, as far as one answer holds them.
MOST_MESSAGES = 1000
# The custom event that says why a reply ended too early.
FINISH = "muster.finish"
# Where a session's metadata keeps the frontend's name of it.
THREAD = "thread"
YES_OR_NO = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "note": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["approved"],
}


@extend_schema(exclude=True)
class AgentView(APIView):
    """POST /agui/{name}: run input in, events out."""

    scope = "messages"

    def post(self, request: Any, name: str) -> Any:
        body = parse_agui_input(request.data)
        with count_user_stream(request.user) as respond:
            turn = start_agui_turn(request, name, body)
            source = stream_agui_events(turn, body.thread_id, body.run_id)
            return respond(build_sse_response(request, source))


@extend_schema(exclude=True)
class ThreadView(APIView):
    """GET /agui/{name}/threads/{id}: the messages so far, then the run in progress."""

    scope = "messages"

    def get(self, request: Any, name: str, thread: str) -> Any:
        session = find_agui_session(request.user, thread)
        if session is None:
            raise NotFound("There is no such thread that you can see.")
        run = Run.objects.filter(session=session, parent=None).order_by("-id").first()
        turn = Turn(run) if run else None
        rows = session.messages.filter(role__in=["user", "assistant"])
        # The protocol has no pages.
        newest, _more = read_page(rows.order_by("-seq"), MOST_MESSAGES)
        messages = [message_json(row) for row in reversed(newest)]
        with count_user_stream(request.user) as respond:
            return respond(build_sse_response(request, snapshot(messages, turn, thread)))


# -- the request ----------------------------------------------------------------------------------------------------


def parse_agui_input(body: JSON) -> RunAgentInput:
    """Raises Invalid with one detail per problem."""
    try:
        return RunAgentInput.model_validate(body)
    except ValidationError as error:
        details = []
        for problem in error.errors()[:20]:
            field = ".".join(map(str, problem["loc"]))[:200]
            details.append({"field": field, "code": "invalid", "message": problem["msg"]})
        raise Invalid("This is not an AG-UI run input.", hint="See details.", details=details)


def start_agui_turn(request: Any, name: str, body: RunAgentInput) -> Turn:
    """Answer what a run of the thread waits for, or start a run with the last message of the user."""
    ends_in_result = bool(body.messages) and body.messages[-1].role == "tool"
    if body.resume or ends_in_result:
        return resume_agui_run(request, body)
    messages = [parse_agui_message(message) for message in body.messages]
    sent = [message for message in messages if message is not None]
    if not sent or sent[-1].role != "user":
        raise Invalid("The last message must be the user's, or the result of a call.", code="invalid_messages")
    # What was sent before opens a new thread; an old one has it already.
    session = find_agui_session(request.user, body.thread_id)
    if session is None:
        session = new_session(request.user, body.thread_id, sent[:-1])
    context = [f"{one.description}: {one.value}" for one in body.context or ()]
    instructions = join_instructions(body, context)
    tools = [tool_json(tool) for tool in body.tools or ()]
    return turns.start_turn(
        user=request.user,
        key=find_key(request),
        agent=name,
        parts=sent[-1].parts,
        session=session,
        is_watched=True,
        tools=tools or None,
        asked={"instructions": instructions} if instructions else None,
        untrusted_input=find_instruction_origin(body),
        metadata={"agui_run": body.run_id[:200]},
    )


def find_instruction_origin(body: RunAgentInput) -> str:
    """Where text in the instructions comes from that anybody may have written: what the page shows, and instructions
    amid the history.
    """
    has_begun = False
    for message in body.messages:
        if not isinstance(message, SystemMessage | DeveloperMessage):
            has_begun = True
        elif has_begun:
            return "instructions in the conversation that was sent along"
    return "the page's context" if body.context else ""


def join_instructions(body: RunAgentInput, context: list[str]) -> str:
    """Messages of the system and the developer are instructions of this run, as is what the page shows."""
    texts = [one.content for one in body.messages if isinstance(one, SystemMessage | DeveloperMessage)]
    if context:
        texts.append("\n".join(["What the page shows:", *context]))
    return "\n\n".join(filter(None, texts))


def find_agui_session(user: Any, thread: str) -> Session | None:
    """The session with this id, or the one that a frontend named so."""
    session = None
    try:
        session = BY_ID.first(user=user.pk, id=UUID(thread))
    except ValueError:
        pass  # a name
    if session is not None or "\0" in thread:
        return session
    # The column holds the beginning of a long name, the metadata the whole.
    for row in BY_NAME.all(user=user.pk, name=thread[:200]):
        if row.metadata.get(THREAD) == thread:
            return row
    return None


def build_agui_sessions_query(user: Any) -> Any:
    return Session.objects.visible_to(SimpleNamespace(pk=user)).select_related("agent")


BY_ID = Select(lambda at: build_agui_sessions_query(at.user).filter(pk=at.id), user=IntegerField(), id=UUIDField())
BY_NAME = Select(
    lambda at: build_agui_sessions_query(at.user).filter(thread=at.name), user=IntegerField(), name=CharField()
)


def new_session(user: Any, thread: str, earlier: Iterable[SentMessage]) -> Session:
    """It is stored with its first message."""
    if not thread or len(thread) > 200 or "\0" in thread:
        raise Invalid("A thread's id has 1 to 200 characters.", code="invalid_thread")
    session = Session(owner=user, thread=thread, metadata={THREAD: thread}, variables={"agent_depth": 0})
    histories.add_sent(session, list(earlier))
    return session


def parse_agui_message(message: Any) -> SentMessage | None:
    """Text and pictures of the user, and text of the assistant; the server keeps the rest itself."""
    if isinstance(message, AssistantMessage) and message.content:
        return SentMessage("assistant", [{"type": "text", "text": message.content}])
    if not isinstance(message, UserMessage):
        return None
    content = message.content
    if isinstance(content, str):
        return SentMessage("user", [{"type": "text", "text": content}])
    return SentMessage("user", [convert_agui_part(part) for part in content])


def convert_agui_part(part: Any) -> dict[str, JSON]:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    if part.type == "image" and part.source.type in ("url", "data"):
        if part.source.type == "url":
            return {"type": "image", "url": part.source.value}
        return {"type": "image", "data": part.source.value, "media_type": part.source.mime_type}
    raise Invalid(f"A part of type “{part.type}” cannot be sent.", code="unsupported_part")


def tool_json(tool: Any) -> dict[str, JSON]:
    schema = tool.parameters or {"type": "object"}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def resume_agui_run(request: Any, body: RunAgentInput) -> Turn:
    """Results of the frontend's tools, answers to questions, and decisions; each once."""
    results = {}
    declined = []
    entries_by_approval = {}
    for message in reversed(body.messages):
        if message.role != "tool":
            break
        results[parse_waiting_id(message.tool_call_id)] = read_tool_message(message)
    approvals = {row.pk: row for row in Approval.objects.visible_to(request.user).select_related("run").open()}
    for entry in body.resume or ():
        id = parse_waiting_id(entry.interrupt_id)
        # An interrupt is an approval or a question, which the frontend cannot tell apart.
        if id in approvals:
            entries_by_approval[id] = entry
        elif entry.status == "cancelled":
            declined.append(id)
        else:
            results[id] = entry.payload
    if entries_by_approval:
        require_scope(request, DECIDE)
    decisions = [(approvals[id], parse_agui_decision(entry)) for id, entry in entries_by_approval.items()]
    return turns.answer_waiting_run(request.user, results, declined=declined, decisions=decisions)


def read_tool_message(message: ToolMessage) -> str:
    """The result of a tool of the frontend, with what it says of its failure. Raises Invalid for what is no text."""
    if isinstance(message.content, str):
        texts = [message.content]
    else:
        texts = [read_result_part(part) for part in message.content]
    if message.error:
        texts.append(f"The tool failed: {message.error}")
    return "\n".join(filter(None, texts))


def read_result_part(part: Any) -> str:
    if part.type != "text":
        raise Invalid(f"A part of type “{part.type}” cannot be sent in a tool's result.", code="unsupported_part")
    return str(part.text)


def parse_agui_decision(entry: Any) -> dict[str, JSON]:
    """A decision as arguments of `runs.calls.approvals.decide_approval`. A plain `true` approves as well."""
    payload = entry.payload
    if not isinstance(payload, dict):
        payload = {"approved": payload is True}
    is_approved = entry.status == "resolved" and payload.get("approved") is True
    arguments = payload.get("arguments")
    note = payload.get("note")
    return {
        "decision": "approve" if is_approved else "deny",
        "arguments": arguments if is_approved and isinstance(arguments, dict) else None,
        "note": note if isinstance(note, str) else "",
    }


def parse_waiting_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(f"Nothing with the id “{text[:80]}” waits for you.", code="unknown_call")


# -- the events -----------------------------------------------------------------------------------------------------


class Translator:
    """The events of one AG-UI run, in the order that its client verifies."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.reading = Reading(for_answers=True)
        self.interrupts: dict[str, dict[str, JSON]] = {}
        # The calls of the frontend's tools.
        self.calls: list[str] = []

    def take(self, step: Step) -> list[dict[str, JSON]]:
        data = step.data
        message = f"{self.prefix}-{data.get('turn', 0)}"
        if step.kind == BEGIN:
            return [{"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"}]
        if step.kind == TEXT:
            return [{"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": data["text"]}]
        if step.kind == CLOSE:
            return [{"type": "TEXT_MESSAGE_END", "messageId": message}]
        if step.kind == CALL:
            return call_events(data)
        if step.kind == RESULT:
            return [result_event(data)]
        self.note(step)
        return []

    def note(self, step: Step) -> None:
        """What the run will wait for."""
        data = step.data
        if step.kind == APPROVAL:
            self.interrupts[data["id"]] = approval_json(data)
        elif step.kind == QUESTION and data["kind"] == "form":
            self.interrupts[data["id"]] = question_json(data)
        elif step.kind == QUESTION:
            self.calls.append(data["call"])

    def ending(self, thread: str, run: str) -> dict[str, JSON]:
        end = self.reading.end
        event: dict[str, JSON] = {"type": "RUN_FINISHED", "threadId": thread, "runId": run}
        if end is None:
            event["outcome"] = self.describe_pause()
            return event
        status = end["status"]
        usage = {"inputTokens": end["usage"]["input_tokens"], "outputTokens": end["usage"]["output_tokens"]}
        if status == "cancelled":
            event["outcome"] = {"type": "cancelled"}
        elif status in ("succeeded", "partial"):
            event["outcome"] = {"type": "success"}
            if end["output"] is not None:
                event["result"] = end["output"]
        else:
            error = end.get("error") or {}
            event = {
                "type": "RUN_ERROR",
                "message": error.get("message", status),
                "code": error.get("code", status),
            }
        event["usage"] = [usage]
        return event

    def describe_pause(self) -> dict[str, JSON]:
        """What the run waits for."""
        if self.interrupts:
            return {"type": "interrupt", "interrupts": list(self.interrupts.values())}
        return {"type": "success", "pendingToolCallIds": self.calls}


def call_events(data: dict[str, JSON]) -> list[dict[str, JSON]]:
    """A tool call whose arguments have come at once."""
    id = data["id"]
    arguments = render_result_value(data["arguments"])
    return [
        {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": data["name"]},
        {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments},
        {"type": "TOOL_CALL_END", "toolCallId": id},
    ]


def result_event(data: dict[str, JSON]) -> dict[str, JSON]:
    """What a tool call returned."""
    id = data["id"]
    return {
        "type": "TOOL_CALL_RESULT",
        "messageId": f"result-{id}",
        "toolCallId": id,
        "content": result_text(data),
        "role": "tool",
    }


def question_json(data: dict[str, JSON]) -> dict[str, JSON]:
    """A question of a run as an interrupt of AG-UI."""
    interrupt = {
        "id": data["call"],
        "reason": "input_required",
        "message": data["prompt"],
        "toolCallId": data["call"],
        **build_expiry(data),
    }
    if isinstance(data["schema"], dict):
        interrupt["responseSchema"] = data["schema"]
    return interrupt


def approval_json(data: dict[str, JSON]) -> dict[str, JSON]:
    """An approval that waits as an interrupt of AG-UI."""
    interrupt = {
        "id": data["id"],
        "reason": "tool_approval",
        "message": f"{data['tool']}: {data['reason']}",
        "responseSchema": YES_OR_NO,
        **build_expiry(data),
        "metadata": {"tool": data["tool"], "arguments": data["arguments"]},
    }
    if data["call"]:
        interrupt["toolCallId"] = data["call"]
    return interrupt


def build_expiry(data: dict[str, JSON]) -> dict[str, JSON]:
    """The client's types know no null."""
    if not data["expires_at"]:
        return {}
    return {"expiresAt": data["expires_at"]}


async def stream_agui_events(turn: Turn, thread: str, run: str) -> AsyncIterator[bytes]:
    yield sse({"type": "RUN_STARTED", "threadId": thread, "runId": run})
    async for piece in following(turn, thread, run):
        yield piece


async def following(turn: Turn, thread: str, run: str) -> AsyncIterator[bytes]:
    """The events of one answer, from its first to its end."""
    translator = Translator(turn.id)
    async for frame in turns.stream_turn_frames(turn, translator.reading.pause):
        if frame.type == "heartbeat":
            yield HEARTBEAT
            continue
        for step in translator.reading.take(frame):
            for event in translator.take(step):
                yield sse(event)
    cut = translator.reading.cut
    # The event of the end has no place for it.
    if cut:
        yield sse({"type": "CUSTOM", "name": FINISH, "value": {"finish": cut}})
    yield sse(translator.ending(thread, run))


async def snapshot(messages: list[dict[str, JSON]], turn: Turn | None, thread: str) -> AsyncIterator[bytes]:
    """For a page that comes back: the stored messages, and what the run in progress has done."""
    run = str(turn.run.pk) if turn else thread
    yield sse({"type": "RUN_STARTED", "threadId": thread, "runId": run})
    yield sse({"type": "MESSAGES_SNAPSHOT", "messages": messages})
    yield sse({"type": "STATE_SNAPSHOT", "snapshot": {}})
    if turn is None or turn.run.is_done:
        yield sse({"type": "RUN_FINISHED", "threadId": thread, "runId": run, "outcome": {"type": "success"}})
        return
    async for piece in following(turn, thread, run):
        yield piece


def message_json(row: Message) -> dict[str, JSON]:
    return {"id": str(row.pk), "role": row.role, "content": row.words}
