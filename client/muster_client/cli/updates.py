"""Between Muster and the Agent Client Protocol: content of prompts, events of runs, errors. Nothing is sent here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from acp import (
    RequestError,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_tool_call,
    update_user_message_text,
)  # fmt: skip

from ..errors import APIError, AuthenticationError, MusterError, NotFoundError
from ..events import Event, Text

REFUSED = range(400, 500)


class Updates:
    """The session updates of one run."""

    def __init__(self) -> None:
        self.text = Text()
        self.has_text = False
        self.calls: set[str] = set()

    def convert(self, event: Event) -> list[Any]:
        """What the editor shows of this event."""
        if piece := self.text.add(event):
            self.has_text = True
            return [update_agent_message_text(piece)]
        data = event.data
        id = str(data.get("id"))
        if event.type == "tool.called" and not data.get("parent_call"):
            self.calls.add(id)
            called = data.get("arguments")
            return [start_tool_call(id, str(data.get("name")), kind="other", status="in_progress", raw_input=called)]
        if event.is_last:
            return self.convert_end(data)
        if id in self.calls and event.type in OF_CALLS:
            return [self.convert_call(event.type, id, data)]
        return []

    def convert_call(self, type: str, id: str, data: dict[str, Any]) -> Any:
        """What became of a tool call that the editor shows."""
        if type in ("tool.log", "tool.progress"):
            return update_tool_call(id, status="in_progress", content=render_tool_content(data.get("message")))
        if data.get("outcome") == "ok":
            result = data.get("result")
            text = data.get("text")
            content = render_tool_content(result if text is None else text)
            return update_tool_call(id, status="completed", content=content, raw_output=result)
        error = data.get("error") or {}
        reason = error.get("message") or data.get("reason")
        return update_tool_call(id, status="failed", content=render_tool_content(reason))

    def convert_end(self, data: dict[str, Any]) -> list[Any]:
        """The reply of a run whose model wrote none."""
        reply = data.get("reply") or {}
        text = str(reply.get("text") or "")
        if not text or self.has_text:
            return []
        return [update_agent_message_text(text)]


OF_CALLS = ("tool.log", "tool.progress", "tool.finished", "tool.denied")


def render_tool_content(value: Any) -> list[Any]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return [tool_content(text_block(text))]


def replay_message(message: dict[str, Any]) -> list[Any]:
    """A message of a session that is loaded."""
    text = message["text"]
    if not text:
        return []
    if message["role"] == "user":
        return [update_user_message_text(text)]
    if message["role"] == "assistant":
        return [update_agent_message_text(text)]
    return []


def convert_prompt(prompt: Iterable[Any]) -> list[dict[str, Any]]:
    """Content parts of a message. Raises RequestError for content that a message cannot have."""
    return [convert_block(block) for block in prompt]


def convert_block(block: Any) -> dict[str, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image":
        return {"type": "image", "data": block.data, "media_type": block.mime_type}
    if block.type == "resource_link":
        return {"type": "text", "text": f"[{block.title or block.name}]({block.uri})"}
    if block.type == "resource":
        return convert_resource(block.resource)
    raise build_refusal_error(f"A prompt cannot contain “{block.type}”.")


def convert_resource(resource: Any) -> dict[str, Any]:
    if (text := getattr(resource, "text", None)) is not None:
        # Others may have written it.
        return {"type": "text", "text": f"{resource.uri}:\n{text}", "untrusted": True}
    if str(resource.mime_type).startswith("image/"):
        return {"type": "image", "data": resource.blob, "media_type": resource.mime_type}
    raise build_refusal_error(f"{resource.uri} is neither text nor an image.")


def join_texts(parts: Iterable[dict[str, Any]]) -> str:
    return "\n\n".join(part["text"] for part in parts if part["type"] == "text")


FINISHES = {"length": "max_tokens", "content_filter": "refusal"}


def stop_reason(data: dict[str, Any]) -> Any:
    """Why the turn ended, by the run's last event. Raises RequestError if the run failed."""
    status = data.get("status")
    error = data.get("error") or {}
    if status == "cancelled":
        return "cancelled"
    if status == "partial" and error.get("code") == "step_limit":
        return "max_turn_requests"
    if status in ("succeeded", "partial"):
        reply = data.get("reply") or {}
        return FINISHES.get(str(reply.get("finish")), "end_turn")
    words = error.get("message") or f"The run is {status}."
    raise RequestError(-32603, str(words), {"code": error.get("code"), "status": status})


def build_refusal_error(words: str) -> RequestError:
    return RequestError(-32602, words)


def convert_server_error(error: MusterError) -> RequestError:
    """The server's error in the protocol's form."""
    if not isinstance(error, APIError):
        return RequestError(-32603, str(error))
    code = -32602 if error.status in REFUSED else -32603
    if isinstance(error, AuthenticationError):
        code = -32000
    elif isinstance(error, NotFoundError):
        code = -32002
    data = {"code": error.code, "status": error.status, "details": error.details, "request_id": error.request_id}
    return RequestError(code, str(error), data)
