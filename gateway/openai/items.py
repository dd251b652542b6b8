"""A turn's events as items of a response, and as the events of its stream (Open Responses).

The same code reads stored events and those that are arriving, so a response that is read again
equals the one that was streamed.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from gateway.turns import Pause
from runs.events.frames import Frame

from .requests import CALL

JSON = Any
Event = dict[str, JSON]
STATUS = {
    "succeeded": "completed", "partial": "incomplete", "failed": "failed", "expired": "failed",
    "cancelled": "cancelled", "queued": "queued", "running": "in_progress", "waiting": "in_progress",
}  # fmt: skip


def bare(id: str) -> str:
    return id.replace("-", "")


def as_text(value: JSON) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


class Items:
    """The output items so far. `take` gives the stream's events for one event of the run."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix  # ids of messages
        self.pause = Pause(for_approvals=True)
        self.output: list[dict[str, JSON]] = []
        self.open: int | None = None  # index of the message being written
        self.turn = 0
        self.calls: dict[str, str] = {}  # kind of each call by its id
        self.end: dict[str, JSON] | None = None
        self.is_paused = False

    def take(self, frame: Frame) -> Iterator[Event]:
        data = frame.data
        match frame.type:
            case "message.delta":
                yield from self.write(data["turn"], data["offset"], data["text"])
            case "model.finished":
                if data["text"]:
                    yield from self.write(data["turn"], 0, data["text"])
                yield from self.close()
            case "tool.called" if not data["parent_call"]:
                yield from self.called(data)
            case "tool.finished" | "tool.denied":
                yield from self.finished(data)
            case "approval.requested":
                yield from self.whole(approval_item(data))
            case "run.finished":
                self.end = data
                if (reply := (data.get("reply") or {}).get("text")) and not self.text:
                    yield from self.write(0, 0, reply)
                yield from self.close()
        self.is_paused = self.pause.ends_with(frame) and self.end is None

    @property
    def text(self) -> str:
        messages = [item for item in self.output if item["type"] == "message"]
        return "".join(part["text"] for item in messages for part in item["content"])

    # -- messages ---------------------------------------------------------------------------------------------------

    def write(self, turn: int, offset: int, text: str) -> Iterator[Event]:
        """Text at an offset of the turn's message; what is there already is left out."""
        if self.open is None or self.turn != turn:
            yield from self.close()
            yield from self.begin(turn)
        assert self.open is not None
        part = self.output[self.open]["content"][0]
        piece = text[max(0, len(part["text"]) - offset) :]
        if piece:
            part["text"] += piece
            yield self.of_part("response.output_text.delta", delta=piece, logprobs=[])

    def begin(self, turn: int) -> Iterator[Event]:
        self.turn, self.open = turn, len(self.output)
        item: dict[str, JSON] = {
            "id": f"msg_{self.prefix}{turn:04d}", "type": "message", "role": "assistant", "status": "in_progress",
            "content": [],
        }  # fmt: skip
        yield {"type": "response.output_item.added", "output_index": self.open, "item": {**item}}
        item["content"] = [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}]
        self.output.append(item)
        yield self.of_part("response.content_part.added", part={**item["content"][0]})

    def close(self) -> Iterator[Event]:
        if self.open is None:
            return
        item = self.output[self.open]
        part = item["content"][0]
        item["status"] = "completed"
        yield self.of_part("response.output_text.done", text=part["text"], logprobs=[])
        yield self.of_part("response.content_part.done", part=part)
        yield {"type": "response.output_item.done", "output_index": self.open, "item": item}
        self.open = None

    def of_part(self, type: str, **more: JSON) -> Event:
        assert self.open is not None
        place = {"item_id": self.output[self.open]["id"], "output_index": self.open, "content_index": 0}
        return {"type": type, **place, **more}

    # -- calls ------------------------------------------------------------------------------------------------------

    def called(self, data: dict[str, JSON]) -> Iterator[Event]:
        self.calls[data["id"]] = data["kind"]
        arguments, index = as_text(data["arguments"]), len(self.output)
        item = {
            "id": f"fc_{bare(data['id'])}", "type": "function_call", "call_id": CALL + bare(data["id"]),
            "name": data["name"], "arguments": arguments, "status": "completed",
        }  # fmt: skip
        place = {"item_id": item["id"], "output_index": index}
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        yield {"type": "response.function_call_arguments.delta", **place, "delta": arguments}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": arguments, "name": data["name"]}
        self.output.append(item)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def finished(self, data: dict[str, JSON]) -> Iterator[Event]:
        """Results of the agent's own calls; the caller has sent those of its tools."""
        if self.calls.get(data["id"], "caller") == "caller":
            return
        if data.get("outcome") == "ok":
            output = data.get("text") if data.get("text") is not None else as_text(data["result"])
        else:
            output = as_text({"error": data.get("error") or {"code": "denied", "message": data.get("reason", "")}})
        yield from self.whole(
            {
                "id": f"fco_{bare(data['id'])}", "type": "function_call_output",
                "call_id": CALL + bare(data["id"]), "output": output, "status": "completed",
            }
        )  # fmt: skip

    def whole(self, item: dict[str, JSON]) -> Iterator[Event]:
        index = len(self.output)
        self.output.append(item)
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    # -- the end ----------------------------------------------------------------------------------------------------

    def status(self, of_run: str) -> str:
        """A turn that waits for the caller is complete: the caller continues it."""
        if self.end is not None:
            return STATUS[self.end["status"]]
        return "completed" if self.is_paused and of_run != "cancelled" else STATUS[of_run]


def approval_item(data: dict[str, JSON]) -> dict[str, JSON]:
    return {
        "id": f"mcpr_{bare(data['id'])}",
        "type": "mcp_approval_request",
        "server_label": "muster",
        "name": data["tool"],
        "arguments": as_text(data["arguments"]),
    }


def usage_json(used: dict[str, JSON]) -> dict[str, JSON]:
    return {
        "input_tokens": used["input_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": used["output_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used["input_tokens"] + used["output_tokens"],
    }
