"""Ollama's own API (`/api/chat`): what is written, and how its answers are read. A stream has one JSON value a line."""

from typing import Any

from .answer_builder import AnswerBuilder, CallPiece
from .completions import count_tokens, declare_tool
from .history import render_content_text
from .wire import Endpoint
from .wire_model import Request

JSON = Any
OPTION_NAMES = {
    "temperature": "temperature", "top_p": "top_p", "max_tokens": "num_predict",
    "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
}  # fmt: skip


class Ollama:
    """The dialect of one server."""

    bridges = True
    forces_calls = False

    def __init__(self, base_url: str, key: str, params: dict[str, JSON]) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._endpoint = Endpoint(f"{base_url}/api/chat", headers)
        self._options = {OPTION_NAMES[name]: value for name, value in params.items()}

    def endpoint(self, request: Request) -> Endpoint:
        return self._endpoint

    def write(self, request: Request) -> dict[str, JSON]:
        body: dict[str, JSON] = {"model": request.model_name, "stream": request.is_streamed}
        body["messages"] = [write_message(message) for message in request.messages]
        options = {**self._options, "stop": list(request.stop)} if request.stop else self._options
        if options:
            body["options"] = options
        if request.tools:
            body["tools"] = [declare_tool(tool) for tool in request.tools]
        if request.output_schema is not None:
            body["format"] = request.output_schema
        return body

    def read(self, builder: AnswerBuilder, event: dict[str, JSON]) -> None:
        message = event.get("message")
        if isinstance(message, dict):
            if isinstance(message.get("thinking"), str):
                builder.add_reasoning(message["thinking"])
            if isinstance(message.get("content"), str):
                builder.add_text(message["content"])
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                read_call(builder, call)
        if event.get("done") is True:
            builder.input_tokens = count_tokens(event.get("prompt_eval_count"))
            builder.output_tokens = count_tokens(event.get("eval_count"))
            builder.end(event.get("done_reason") or "stop")  # older servers give no reason

    def greetings(self) -> list[dict[str, JSON]]:
        call = {"function": {"name": "hello", "arguments": {}}}
        return [{"message": {"role": "assistant", "content": "Hello", "tool_calls": [call]}, "done": True}]


def read_call(builder: AnswerBuilder, call: JSON) -> None:
    function = call.get("function") if isinstance(call, dict) else None
    if isinstance(function, dict):
        builder.add_call(CallPiece.of(None, call.get("id"), function.get("name"), function.get("arguments")))


def write_message(message: dict[str, JSON]) -> dict[str, JSON]:
    """Arguments are objects here, and a result names its tool."""
    content = message["content"]
    written: dict[str, JSON] = {"role": message["role"], "content": render_content_text(without_images(content))}
    if images := [part["data"] for part in list_parts(content) if is_image(part)]:
        written["images"] = images
    if message["role"] == "tool":
        return {**written, "tool_name": message["name"], "tool_call_id": message["tool_call_id"]}
    if message.get("tool_calls"):
        written["tool_calls"] = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in message["tool_calls"]
        ]
    return written


def list_parts(content: JSON) -> list[dict[str, JSON]]:
    return [] if isinstance(content, str) else list(content or ())


def is_image(part: dict[str, JSON]) -> bool:
    return part.get("type") == "image" and bool(part.get("data"))


def without_images(content: JSON) -> JSON:
    return content if isinstance(content, str) else [part for part in content if not is_image(part)]
