"""A turn's events in LangGraph's stream modes. The nodes are those of `/graph`: model and tools."""

from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid5

from gateway import turns
from gateway.reading import BEGIN, CALL, CLOSE, REPLACED, TEXT, Reading, Step, render_result_value, result_text
from gateway.sse import HEARTBEAT
from gateway.turns import Turn
from plumbing import json_values
from plumbing.threads import in_thread
from runs.events.frames import Frame
from runs.models import Run

from . import interrupts
from .state import (
    build_ai_id,
    build_ai_message,
    build_tool_call,
    build_tool_message,
    load_thread_messages,
    write_finish,
)

JSON = Any
Event = tuple[str, JSON]
MODES = ("values", "updates", "messages", "messages-tuple", "events", "custom")
CUSTOM = ("run.progress", "tool.progress", "tool.log", "artifact.created", "stuck.warned")
INTERRUPT = "__interrupt__"
# The name of every graph in its events.
GRAPH = "LangGraph"


class Pause(turns.Pause):
    """Notices only pauses that are not over yet: a run that was resumed waits no more at the earlier ones."""

    def __init__(self, since: int) -> None:
        super().__init__(for_approvals=True)
        self.since = since

    def ends_with(self, frame: Frame) -> bool:
        is_over = super().ends_with(frame)
        is_recent = (frame.seq or 0) >= self.since
        return is_over and (frame.is_last or is_recent)


class Translator:
    """`messages` is the thread's state when the turn began. `take` gives the stream's events for one of the run's."""

    def __init__(self, run: Run, messages: list[dict[str, JSON]], modes: set[str], since: int = 0) -> None:
        self.run = run
        self.modes = modes
        self.reading = Reading()
        self.reading.pause = Pause(since)
        self.start_from(messages)
        # The message that is being written, and how many calls it will have.
        self.ai: dict[str, JSON] | None = None
        self.expected = 0  # calls in it
        self.turn = 0
        # Why the last answer of the model ended.
        self.finish = ""
        # The reader may have pieces of the message that is being written.
        self.is_rejoined = False
        self.calls = {call["id"]: call for message in messages for call in message.get("tool_calls", ())}
        # The ids of the nodes at work, by the message or call that they work on.
        self.nodes: dict[str, str] = {}

    def start_from(self, messages: list[dict[str, JSON]]) -> None:
        self.messages = messages
        self.places = {message["id"]: place for place, message in enumerate(messages)}

    def take(self, frame: Frame) -> Iterator[Event]:
        data = frame.data
        if frame.type == "model.finished":
            self.turn = data["turn"]
            self.expected = len(data["tool_calls"])
            self.finish = data.get("finish") or ""
        if "custom" in self.modes and frame.type in CUSTOM:
            yield "custom", {"type": frame.type, **data}
        makers = {BEGIN: self.begin, TEXT: self.write, REPLACED: self.replace, CLOSE: self.close, CALL: self.called}
        for step in self.reading.take(frame):
            maker = makers.get(step.kind)
            if maker:
                yield from maker(step)
        # Results are read from the event itself: the reading leaves out those of the caller's tools.
        if frame.type in ("tool.finished", "tool.denied") and data["id"] in self.calls:
            yield from self.answered(data)

    def begin(self, step: Step) -> Iterator[Event]:
        self.turn = step.data["turn"]
        self.expected = 0
        yield from self.start()

    def start(self) -> Iterator[Event]:
        self.ai = build_ai_message(build_ai_id(self.run.pk, self.turn), "")
        if "messages" in self.modes:
            yield "messages/metadata", {self.ai["id"]: {"metadata": self.metadata("model")}}
        if "events" in self.modes:
            yield from self.node_begins("model", self.ai["id"])
            earlier = {"messages": [list(self.messages)]}
            yield "events", self.event("on_chat_model_start", "model", self.ai["id"], {"input": earlier})

    def write(self, step: Step) -> Iterator[Event]:
        assert self.ai is not None  # it has begun
        text = step.data["text"]
        self.ai["content"] += text
        chunk = build_ai_message(self.ai["id"], text)
        chunk["type"] = "AIMessageChunk"
        yield from self.piece(chunk)

    def replace(self, step: Step) -> Iterator[Event]:
        """The message as a whole, under the id of what was heard of it."""
        assert self.ai is not None
        self.ai["content"] = step.data["text"]
        if "messages" in self.modes:
            yield "messages/partial", [self.ai]
        if "messages-tuple" in self.modes:
            yield "messages", [self.ai, self.metadata("model")]

    def piece(self, chunk: dict[str, JSON]) -> Iterator[Event]:
        """A piece of the message that is being written, in each mode that sends pieces."""
        assert self.ai is not None
        if "messages" in self.modes:
            yield "messages/partial", [self.ai]
        if "messages-tuple" in self.modes:
            # A reader that came back may have lost pieces, so it gets the message so far.
            sent = self.ai if self.is_rejoined else chunk
            yield "messages", [sent, self.metadata("model")]
        if "events" in self.modes:
            yield "events", self.event("on_chat_model_stream", "model", chunk["id"], {"chunk": chunk})

    def close(self, step: Step) -> Iterator[Event]:
        if self.expected == 0:
            yield from self.said()

    def called(self, step: Step) -> Iterator[Event]:
        """A call of the model, which is a part of its message."""
        id = step.data["id"]
        name = step.data["name"]
        arguments = step.data["arguments"]
        # A model may call tools without a word: the message begins with its first call.
        if self.ai is None or self.ai["id"] != build_ai_id(self.run.pk, self.turn):
            yield from self.start()
        assert self.ai is not None
        call = build_tool_call(id, name, arguments)
        piece = {
            "id": id,
            "name": name,
            "args": render_result_value(arguments),
            "index": len(self.ai["tool_calls"]),
            "type": "tool_call_chunk",
        }
        self.calls[id] = call
        self.ai["tool_calls"].append(call)
        chunk = build_ai_message(self.ai["id"], "")
        chunk["type"] = "AIMessageChunk"
        chunk["tool_calls"] = [call]
        chunk["tool_call_chunks"] = [piece]
        yield from self.piece(chunk)
        # Calls are told one by one: the message is complete with the last of them.
        if len(self.ai["tool_calls"]) >= self.expected:
            yield from self.said()
        if "events" in self.modes:
            yield from self.tool_begins(call)

    def said(self) -> Iterator[Event]:
        """The message of the model is complete."""
        message = self.ai
        self.ai = None
        assert message is not None
        write_finish(message, self.finish)
        if "events" in self.modes:
            yield "events", self.event("on_chat_model_end", "model", message["id"], {"output": message})
            yield from self.node_ends("model", message["id"], message)
        yield from self.put(message, "model")

    def answered(self, data: dict[str, JSON]) -> Iterator[Event]:
        call = self.calls[data["id"]]
        message = build_tool_message(call["id"], call["name"], result_text(data), data.get("outcome") == "ok")
        if "messages-tuple" in self.modes:
            yield "messages", [message, self.metadata("tools")]
        if "events" in self.modes:
            # It may not have begun yet: the turn may begin after its call.
            yield from self.tool_begins(call)
            yield "events", self.event("on_tool_end", call["name"], call["id"], {"output": message})
            yield from self.node_ends("tools", call["id"], message)
        yield from self.put(message, "tools")

    def put(self, message: dict[str, JSON], node: str) -> Iterator[Event]:
        """The message is part of the state from now on."""
        place = self.places.setdefault(message["id"], len(self.messages))
        self.messages[place : place + 1] = [message]
        if "messages" in self.modes:
            yield "messages/complete", [message]
        if "updates" in self.modes:
            yield "updates", {node: {"messages": [message]}}
        if "values" in self.modes:
            yield "values", {"messages": self.messages}

    def graph_begins(self) -> Iterator[Event]:
        """The agent as a chain, around the chains of its nodes."""
        if "events" in self.modes:
            yield "events", self.chain_event("on_chain_start", {"input": {"messages": list(self.messages)}})

    def graph_ends(self) -> Iterator[Event]:
        if "events" in self.modes:
            yield "events", self.chain_event("on_chain_end", {"output": {"messages": self.messages}})

    def node_begins(self, node: str, work: str) -> Iterator[Event]:
        if work in self.nodes:
            return
        self.nodes[work] = str(uuid5(self.run.pk, work))
        yield "events", self.chain_event("on_chain_start", {"input": {"messages": list(self.messages)}}, node, work)

    def tool_begins(self, call: dict[str, JSON]) -> Iterator[Event]:
        if call["id"] in self.nodes:
            return
        yield from self.node_begins("tools", call["id"])
        yield "events", self.event("on_tool_start", call["name"], call["id"], {"input": call["args"]})

    def node_ends(self, node: str, work: str, message: dict[str, JSON]) -> Iterator[Event]:
        output = {"messages": [message]}
        yield "events", self.chain_event("on_chain_stream", {"chunk": output}, node, work)
        yield "events", self.chain_event("on_chain_end", {"output": output}, node, work)
        yield "events", self.chain_event("on_chain_stream", {"chunk": {node: output}})
        del self.nodes[work]

    def interrupted(self, waiting: list[interrupts.Interrupt]) -> Iterator[Event]:
        interrupts_json = [one.as_json() for one in waiting]
        if "updates" in self.modes:
            yield "updates", {INTERRUPT: interrupts_json}
        if "values" in self.modes:
            yield "values", {"messages": self.messages, INTERRUPT: interrupts_json}

    def error(self) -> dict[str, str] | None:
        end = self.reading.end
        if end is None:
            return None
        return find_stream_error(end["status"], end.get("error"))

    def metadata(self, node: str) -> dict[str, JSON]:
        return {
            "run_id": str(self.run.pk),
            "thread_id": str(self.run.session_id),
            "langgraph_node": node,
            "langgraph_step": self.turn,
            "langgraph_checkpoint_ns": "",
        }

    def event(self, kind: str, name: str, id: str, data: dict[str, JSON]) -> dict[str, JSON]:
        """An event of the model or of a tool, which works below its node."""
        node = "model" if kind.startswith("on_chat") else "tools"
        parents = [str(self.run.pk)]
        if id in self.nodes:
            parents.append(self.nodes[id])
        return {
            "event": kind,
            "name": name,
            "run_id": id,
            "parent_ids": parents,
            "tags": [],
            "metadata": self.metadata(node),
            "data": data,
        }

    def chain_event(self, kind: str, data: dict[str, JSON], node: str = "", work: str = "") -> dict[str, JSON]:
        """An event of a node, or of the whole agent."""
        graph = str(self.run.pk)
        return {
            "event": kind,
            "name": node or GRAPH,
            "run_id": self.nodes[work] if node else graph,
            "parent_ids": [graph] if node else [],
            "tags": [],
            "metadata": self.metadata(node),
            "data": data,
        }


def find_stream_error(status: str, error: dict[str, JSON] | None) -> dict[str, str] | None:
    if status not in ("failed", "expired"):
        return None
    error = error or {}
    code = error.get("code", status)
    message = error.get("message", status)
    return {"error": str(code), "message": str(message)}


def sse(event: str, data: JSON) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), json_values.dump_json(data))


def number_last_frame(frames: list[bytes], id: int) -> bytes:
    """The last one has the number: a reader without it gets all of them again."""
    numbered = b"id: %d\n" % id + frames[-1]
    return b"".join([*frames[:-1], numbered])


async def stream_langgraph_run(turn: Turn, modes: set[str], *, seen: int = 0, since: int = 0) -> AsyncIterator[bytes]:
    """The run's stream. `seen` is the number of the last event that the reader has; earlier ones are not sent."""
    run = turn.run
    was_decided = False
    messages = await in_thread(before, turn)
    translator = Translator(run, messages, modes, since)
    translator.is_rejoined = bool(seen)
    if not seen:
        yield sse("metadata", {"run_id": str(run.pk), "thread_id": str(run.session_id), "attempt": 1})
        if "values" in modes and turn.after == 0:
            yield sse("values", {"messages": messages})
        for event, data in translator.graph_begins():
            yield sse(event, data)
    async for frame in turns.stream_turn_frames(turn, translator.reading.pause):
        if frame.type == "heartbeat":
            yield HEARTBEAT
            continue
        # It waited for another run, which said something.
        if frame.type == "run.started" and run.after_id:
            translator.start_from(await in_thread(before, turn))
        if frame.type == "approval.decided":
            was_decided = True
        # A person may have edited the arguments.
        if was_decided and frame.type in ("tool.finished", "tool.denied"):
            translator.start_from(await in_thread(before, Turn(run, 1)))
        frames = [sse(event, data) for event, data in translator.take(frame)]
        # Pieces of text have no number: they are not stored, so the reader cannot have them.
        if frames:
            if frame.seq is None:
                yield b"".join(frames)
            elif frame.seq > seen:
                yield number_last_frame(frames, frame.seq)
        if frame.type == "model.finished" and (frame.seq or 0) > seen:
            translator.is_rejoined = False
    async for piece in stream_run_end(translator):
        yield piece


async def stream_run_end(translator: Translator) -> AsyncIterator[bytes]:
    """What the run waits for, or how it ended."""
    if translator.reading.end is None:
        run_id = translator.run.pk
        interrupts_by_run = await in_thread(interrupts.load_open_interrupts, [run_id])
        for event, data in translator.interrupted(interrupts_by_run[run_id]):
            yield sse(event, data)
    error = translator.error()
    if error:
        yield sse("error", error)
        return
    for event, data in translator.graph_ends():
        yield sse(event, data)
    yield sse("end", None)


def before(turn: Turn) -> list[dict[str, JSON]]:
    """The thread's messages when the turn began: without what the run does in it."""
    session = turn.run.session
    messages = load_thread_messages(session) if session else []
    if turn.after:
        return messages
    prefix = f"run-{turn.run.pk}-"
    for place, message in enumerate(messages):
        if message["type"] == "ai" and message["id"].startswith(prefix):
            return messages[:place]
    return messages
