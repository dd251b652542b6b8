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
        headers = {}
        # A server on the same machine has no key.
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._endpoint = Endpoint(f"{base_url}/api/chat", headers)
        self._options = {OPTION_NAMES[name]: value for name, value in params.items()}

    def endpoint(self, request: Request) -> Endpoint:
        return self._endpoint

    def write(self, request: Request) -> dict[str, JSON]:
        body: dict[str, JSON] = {"model": request.model_name, "stream": request.is_streamed}
        body["messages"] = [write_message(message) for message in request.messages]
        options = self._options
        if request.stop:
            options = {**options, "stop": list(request.stop)}
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
            # Older servers give no reason.
            builder.end(event.get("done_reason") or "stop")

    def greetings(self) -> list[dict[str, JSON]]:
        call = {"function": {"name": "hello", "arguments": {}}}
        return [{"message": {"role": "assistant", "content": "Hello", "tool_calls": [call]}, "done": True}]


def read_call(builder: AnswerBuilder, call: JSON) -> None:
    if not isinstance(call, dict):
        return
    function = call.get("function")
    if not isinstance(function, dict):
        return
    piece = CallPiece.of(None, call.get("id"), function.get("name"), function.get("arguments"))
    builder.add_call(piece)


def write_message(message: dict[str, JSON]) -> dict[str, JSON]:
    """Arguments are objects here, and a result names its tool."""
    content = message["content"]
    text = render_content_text(without_images(content))
    written: dict[str, JSON] = {"role": message["role"], "content": text}
    images = [part["data"] for part in list_parts(content) if is_image(part)]
    if images:
        written["images"] = images
    if message["role"] == "tool":
        written["tool_name"] = message["name"]
        written["tool_call_id"] = message["tool_call_id"]
        return written
    calls = []
    for call in message.get("tool_calls") or ():
        function = {"name": call["name"], "arguments": call["arguments"]}
        calls.append({"id": call["id"], "function": function})
    if calls:
        written["tool_calls"] = calls
    return written


def list_parts(content: JSON) -> list[dict[str, JSON]]:
    if isinstance(content, str):
        return []
    return list(content or ())


def is_image(part: dict[str, JSON]) -> bool:
    # An image that is only an address cannot be sent: the server fetches nothing.
    return part.get("type") == "image" and bool(part.get("data"))


def without_images(content: JSON) -> JSON:
    if isinstance(content, str):
        return content
    return [part for part in content if not is_image(part)]
