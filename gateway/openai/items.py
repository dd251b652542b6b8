"""A turn's events as items of a response, and as the events of its stream (Open Responses).

The same code reads stored events and those that are arriving, so a response that is read again
equals the one that was streamed.
"""

import re
from collections.abc import Iterator
from typing import Any

from gateway import turns
from gateway.reading import (
    APPROVAL,
    BEGIN,
    CLOSE,
    FILE,
    REPLACED,
    RESULT,
    TEXT,
    Reading,
    Step,
    bare,
    file_url,
    render_result_value,
    result_text,
)
from gateway.reading import CALL as CALLED
from gateway.turns import Turn
from runs.events.frames import Frame

from .requests import CALL

JSON = Any
SERVER = "muster"
PIECE = re.compile(r"\S{1,12}\s*|\s+")
Event = dict[str, JSON]
STATUS = {
    "succeeded": "completed", "partial": "incomplete", "failed": "failed", "expired": "failed",
    "cancelled": "cancelled", "queued": "queued", "running": "in_progress", "waiting": "in_progress",
}  # fmt: skip


class Items:
    """The output items so far. `take` gives the stream's events for one event of the run."""

    def __init__(self, prefix: str, calls: dict[str, dict[str, JSON]] | None = None) -> None:
        """`calls`: those of the agent that were made before, by their ids."""
        self.prefix = prefix  # ids of messages
        self.calls = calls or {}
        self.unsent = ""  # text that is no whole piece yet
        self.reading = Reading()
        self.output: list[dict[str, JSON]] = []
        self.unnamed: list[dict[str, JSON]] = []  # files that the next message refers to

    def take(self, frame: Frame) -> Iterator[Event]:
        makers = {BEGIN: self.begin, TEXT: self.write, REPLACED: self.replace, CLOSE: self.close,
                  CALLED: self.called, RESULT: self.finished, FILE: self.made, APPROVAL: self.asked}  # fmt: skip
        for step in self.reading.take(frame):
            maker = makers.get(step.kind)
            if maker:
                yield from maker(step)

    def take_stored(self, turn: Turn) -> None:
        """All that the turn has stored so far; nobody needs the stream's events."""
        for frame in turns.iterate_replayed_frames(turn, self.reading.pause):
            for _ in self.take(frame):
                pass

    # -- messages ---------------------------------------------------------------------------------------------------

    def begin(self, step: Step) -> Iterator[Event]:
        """A message of the agent begins, with one part."""
        item: dict[str, JSON] = {
            "id": f"msg_{self.prefix}{step.data['turn']:04d}",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        # Copies are sent: the item and its part grow while the events wait to be written.
        yield {"type": "response.output_item.added", "output_index": len(self.output), "item": {**item}}
        part: dict[str, JSON] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        item["content"] = [part]
        self.output.append(item)
        yield self.of_part("response.content_part.added", part={**part})

    def write(self, step: Step) -> Iterator[Event]:
        """In pieces that do not depend on how the text arrives, so that events have the same numbers when they are read
        again. The last one may become longer, and waits.
        """
        text = step.data["text"]
        self.output[-1]["content"][0]["text"] += text
        *pieces, self.unsent = PIECE.findall(self.unsent + text)
        for piece in pieces:
            yield self.of_part("response.output_text.delta", delta=piece, logprobs=[])

    def replace(self, step: Step) -> Iterator[Event]:
        """The protocol cannot take back text that was sent; the complete message at the end has the right one."""
        self.output[-1]["content"][0]["text"] = step.data["text"]
        self.unsent = ""
        return iter(())

    def close(self, step: Step) -> Iterator[Event]:
        """The message is complete."""
        text = step.data["text"]
        item = self.output[-1]
        item["status"] = "completed"
        if self.unsent:
            yield self.of_part("response.output_text.delta", delta=self.unsent, logprobs=[])
        self.unsent = ""
        yield from self.refer(len(text))
        yield self.of_part("response.output_text.done", text=text, logprobs=[])
        yield self.of_part("response.content_part.done", part=item["content"][0])
        yield {"type": "response.output_item.done", "output_index": len(self.output) - 1, "item": item}

    def refer(self, end: int) -> Iterator[Event]:
        """The message ends with references to the files that were made before it."""
        annotations = self.output[-1]["content"][0]["annotations"]
        for file in self.unnamed:
            annotation = {
                "type": "url_citation",
                "url": file_url(file["file"]),
                "title": file["name"],
                "start_index": end,
                "end_index": end,
            }
            index = len(annotations)
            annotations.append(annotation)
            yield self.of_part("response.output_text.annotation.added", annotation_index=index, annotation=annotation)
        self.unnamed = []

    def of_part(self, type: str, **more: JSON) -> Event:
        """An event about the message that is being written: nothing else is added meanwhile."""
        index = len(self.output) - 1
        id = self.output[index]["id"]
        return {"type": type, "item_id": id, "output_index": index, "content_index": 0, **more}

    # -- calls ------------------------------------------------------------------------------------------------------

    def called(self, step: Step) -> Iterator[Event]:
        """A call of the caller's tool. One of the agent's is an item once it has its result."""
        id = bare(step.data["id"])
        name = step.data["name"]
        arguments = render_result_value(step.data["arguments"])
        data = {"id": id, "name": name, "arguments": arguments}
        if step.data["kind"] != "caller":
            self.calls[id] = data
            return
        item = call_item(data)
        index = len(self.output)
        place = {"item_id": item["id"], "output_index": index}
        begun = {**item, "arguments": "", "status": "in_progress"}
        self.output.append(item)
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        yield {"type": "response.function_call_arguments.delta", **place, "delta": arguments}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": arguments, "name": name}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def made(self, step: Step) -> Iterator[Event]:
        self.unnamed.append(step.data)
        return iter(())

    def finished(self, step: Step) -> Iterator[Event]:
        """A call of the agent's own, with its result."""
        id = bare(step.data["id"])
        call = self.calls.get(id) or {"id": id, "name": step.data["name"], "arguments": "{}"}
        item = mcp_item(call, step.data)
        arguments = item["arguments"]
        index = len(self.output)
        place = {"item_id": item["id"], "output_index": index}
        begun = {**item, "arguments": "", "output": None, "error": None, "status": "in_progress"}
        self.output.append(item)
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        yield {"type": "response.mcp_call.in_progress", **place}
        yield {"type": "response.mcp_call_arguments.delta", **place, "delta": arguments}
        yield {"type": "response.mcp_call_arguments.done", **place, "arguments": arguments}
        yield {"type": f"response.mcp_call.{item['status']}", **place}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def asked(self, step: Step) -> Iterator[Event]:
        yield from self.whole(approval_item(step.data))

    def whole(self, item: dict[str, JSON]) -> Iterator[Event]:
        index = len(self.output)
        self.output.append(item)
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    # -- the end ----------------------------------------------------------------------------------------------------

    def status(self, of_run: str) -> str:
        """A turn that waits for the caller is complete: the caller continues it."""
        end = self.reading.end
        if end is None:
            is_over = self.reading.is_paused and of_run != "cancelled"
            return "completed" if is_over else STATUS[of_run]
        status = STATUS[end["status"]]
        if status == "completed" and self.reading.cut:
            return "incomplete"
        return status

    def incomplete_reason(self) -> str:
        """In the words of this API."""
        return {"length": "max_output_tokens", "content_filter": "content_filter"}.get(
            self.reading.cut, "max_tool_calls"
        )


def call_item(data: dict[str, JSON]) -> dict[str, JSON]:
    """A call of the caller's tool: {"id", "name", "arguments"}, the id without hyphens."""
    return {
        "id": f"fc_{data['id']}",
        "type": "function_call",
        "call_id": CALL + data["id"],
        "name": data["name"],
        "arguments": data["arguments"],
        "status": "completed",
    }


def mcp_item(data: dict[str, JSON], finished: dict[str, JSON]) -> dict[str, JSON]:
    """A call that the server made itself: for it OpenAI has the calls of remote MCP servers. `finished`: the data of
    its last event.
    """
    text = result_text(finished)
    output = None
    error = None
    if finished.get("outcome") == "ok":
        status = "completed"
        output = text
    else:
        status = "failed"
        error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
    return {
        "id": f"mcp_{data['id']}",
        "type": "mcp_call",
        "server_label": SERVER,
        "name": data["name"],
        "arguments": data["arguments"],
        "output": output,
        "error": error,
        "status": status,
        "approval_request_id": None,
    }


def approval_item(data: dict[str, JSON]) -> dict[str, JSON]:
    return {
        "id": f"mcpr_{bare(data['id'])}",
        "type": "mcp_approval_request",
        "server_label": SERVER,
        "name": data["tool"],
        "arguments": render_result_value(data["arguments"]),
    }


def usage_json(used: dict[str, JSON]) -> dict[str, JSON]:
    sent = used["input_tokens"]
    written = used["output_tokens"]
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + written,
    }
