"""The Responses API of OpenAI, which other servers offer too: what is written, and how its answers are read.

Nothing is stored at the server (`store: false`). What a model thought comes back encrypted, and has to be sent along
with the calls that followed it, in the same order: `kept` has the order of an answer's items, and the encrypted ones.
"""

from collections.abc import Iterator
from typing import Any

from plumbing import json_values
from registry.exceptions import AttemptFailed

from .answer_builder import AnswerBuilder, CallPiece
from .chat import ANY
from .completions import count_tokens, write_completion_content
from .errors import find_fault
from .wire import Endpoint
from .wire_model import Request, declare_parameters

JSON = Any
NAMES = {"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}
# The items of an answer, among the fields that go back with it.
ORDER = "output"
ENCRYPTED = "reasoning.encrypted_content"
# The fields of an item that the server wants back.
KEPT = ("type", "id", "summary", "content", "encrypted_content", "phase")


class Responses:
    """The dialect of one endpoint. `bridges`: its models may have templates that want roles to alternate."""

    def __init__(self, endpoint: Endpoint, params: dict[str, JSON], *, is_openai: bool = False) -> None:
        self._endpoint = endpoint
        self._params = {}
        for name, value in params.items():
            if name in NAMES:
                self._params[NAMES[name]] = value
        self.bridges = not is_openai
        self.forces_calls = True

    def endpoint(self, request: Request) -> Endpoint:
        return self._endpoint

    def write(self, request: Request) -> dict[str, JSON]:
        messages = list(request.messages)
        body: dict[str, JSON] = {"model": request.model_name, "store": False, **self._params}
        if messages and messages[0]["role"] == "system":
            body["instructions"] = messages.pop(0)["content"]
        body["input"] = [item for message in messages for item in write_items(message)]
        if "encrypted_reasoning" not in request.refused:
            body["include"] = [ENCRYPTED]
        if request.tools:
            body["tools"] = [declare_function(tool) for tool in request.tools]
        if request.forced:
            body["tool_choice"] = request.forced
            if request.forced != ANY:
                body["tool_choice"] = {"type": "function", "name": request.forced}
        if request.has_no_parallel_calls:
            body["parallel_tool_calls"] = False
        if request.output_schema is not None:
            shape = {"type": "json_schema", "name": "answer", "schema": request.output_schema, "strict": False}
            body["text"] = {"format": shape}
        if request.is_streamed:
            body["stream"] = True
        return body

    def read(self, builder: AnswerBuilder, event: dict[str, JSON]) -> None:
        kind = event.get("type")
        if kind is None:
            read_response(builder, event)
        elif reader := READERS.get(kind):
            reader(builder, event)

    def greetings(self) -> list[dict[str, JSON]]:
        call = {"type": "function_call", "call_id": "call_0", "name": "hello", "arguments": "{}"}
        return [{"output": [call], "status": "completed", "usage": {}}]


# -- the request ------------------------------------------------------------------------------------------------------


def write_items(message: dict[str, JSON]) -> list[dict[str, JSON]]:
    """A message with calls is several items here."""
    role = message["role"]
    content = message["content"]
    if role == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": content}]
    if role != "assistant":
        return [{"role": role, "content": write_response_parts(content)}]
    calls = message.get("tool_calls")
    if calls:
        order = message["fields"].get(ORDER)
        if order:
            return list(order_items(order, content, calls))
    items: list[dict[str, JSON]] = []
    if content:
        items.append({"role": "assistant", "content": content})
    items += map(write_call, calls or ())
    return items


def order_items(order: list[JSON], content: JSON, calls: list[JSON]) -> Iterator[dict[str, JSON]]:
    """The items of an answer in the order in which they came. `order` has the place of its text and of each call."""
    waiting = list(calls)
    text = content
    for entry in order:
        kind = entry["type"]
        if kind == "function_call":
            if waiting:
                yield write_call(waiting.pop(0))
        elif kind == "message":
            if text:
                message = {"role": "assistant", "content": text}
                if "phase" in entry:
                    message["phase"] = entry["phase"]
                yield message
            # The text is sent once, at the place of the first message.
            text = ""
        else:
            # The index is ours; the server refuses it.
            yield {name: value for name, value in entry.items() if name != "index"}
    if text:
        yield {"role": "assistant", "content": text}
    yield from map(write_call, waiting)


def write_call(call: dict[str, JSON]) -> dict[str, JSON]:
    arguments = json_values.dump_json(call["arguments"]).decode()
    return {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": arguments}


def write_response_parts(content: JSON) -> JSON:
    written = write_completion_content(content)
    if isinstance(written, str):
        return written
    return [write_input_part(part) for part in written]


def write_input_part(part: dict[str, JSON]) -> dict[str, JSON]:
    """A part of a chat completion in this API's words."""
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"]}


def declare_function(tool: Any) -> dict[str, JSON]:
    return {
        "type": "function", "name": tool.name, "description": tool.description,
        "parameters": declare_parameters(tool), "strict": False,
    }  # fmt: skip


# -- the answer -------------------------------------------------------------------------------------------------------


def read_response(builder: AnswerBuilder, response: dict[str, JSON]) -> None:
    """A whole answer. Raises AttemptFailed."""
    for index, item in enumerate(list_objects(response, "output")):
        read_item(builder, item, index)
    read_ending(builder, response)


def read_item(builder: AnswerBuilder, item: dict[str, JSON], index: int) -> None:
    if item.get("type") == "function_call":
        builder.add_whole_call(read_call_piece(item, index))
    elif item.get("type") == "message":
        read_response_message(builder, item)
    elif item.get("type") == "reasoning":
        for part in [*list_objects(item, "summary"), *list_objects(item, "content")]:
            builder.add_reasoning(get_text(part, "text"))
    keep_item(builder, item, index)


def read_response_message(builder: AnswerBuilder, item: dict[str, JSON]) -> None:
    for part in list_objects(item, "content"):
        builder.add_text(get_text(part, "text"))
        builder.add_refusal(get_text(part, "refusal"))


def keep_item(builder: AnswerBuilder, item: dict[str, JSON], index: int) -> None:
    """Its place, and of what the model thought all that the server wants back."""
    kind = item.get("type")
    entry: dict[str, JSON] = {"index": index}
    if kind == "reasoning":
        for name in KEPT:
            if item.get(name) is not None:
                entry[name] = item[name]
    elif kind in ("message", "function_call"):
        entry["type"] = kind
        if isinstance(item.get("phase"), str):
            entry["phase"] = item["phase"]
    else:
        return
    builder.add_field(ORDER, [entry])


def read_call_piece(item: dict[str, JSON], index: JSON) -> CallPiece:
    id = item.get("call_id") or item.get("id")
    return CallPiece.of(index, id, item.get("name"), item.get("arguments"))


def list_objects(value: dict[str, JSON], name: str) -> list[dict[str, JSON]]:
    """The objects in the list of this name; empty if there is no such list."""
    entries = value.get(name)
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict)]


def get_text(value: JSON, name: str) -> str:
    if not isinstance(value, dict):
        return ""
    text = value.get(name)
    if not isinstance(text, str):
        return ""
    return text


def read_ending(builder: AnswerBuilder, response: dict[str, JSON]) -> None:
    """The response says how it ended. Raises AttemptFailed."""
    usage = response.get("usage")
    if isinstance(usage, dict):
        builder.input_tokens = count_tokens(usage.get("input_tokens"))
        builder.output_tokens = count_tokens(usage.get("output_tokens"))
    fault = find_fault({"error": response.get("error")}, json_values.dump_json(response))
    if fault:
        raise fault
    status = response.get("status")
    if status == "incomplete":
        reason = get_text(response.get("incomplete_details"), "reason")
        builder.end(reason or "incomplete")
    elif status in ("completed", None) and ("output" in response or builder.has_any):
        builder.end("stop")
    else:
        message = f"The model server's response is “{status}”."
        raise AttemptFailed("bad_answer", message, is_retryable=True)


# -- the events of a stream -------------------------------------------------------------------------------------------


def read_added(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    item = event.get("item")
    if not isinstance(item, dict) or item.get("type") != "function_call":
        return
    # The arguments follow in pieces; what stands here would be said twice.
    piece = read_call_piece({**item, "arguments": ""}, event.get("output_index"))
    builder.add_pieces([piece])


def read_call_delta(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    piece = CallPiece.of(event.get("output_index"), None, None, event.get("delta"))
    builder.add_pieces([piece])


def read_call_done(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    index = event.get("output_index")
    # Without a place, the event of its item says the same.
    if isinstance(index, int):
        piece = CallPiece.of(index, None, None, event.get("arguments"))
        builder.add_whole_call(piece)


def read_done(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    item = event.get("item")
    index = event.get("output_index")
    if not isinstance(item, dict):
        return
    if item.get("type") == "function_call":
        builder.add_whole_call(read_call_piece(item, index))
    if not isinstance(index, int):
        index = 0
    keep_item(builder, item, index)


def read_text_delta(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    builder.add_text(get_text(event, "delta"))


def read_refusal(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    builder.add_refusal(get_text(event, "delta"))


def read_thought(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    builder.add_reasoning(get_text(event, "delta"))


def read_next_thought(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    """Another paragraph of the summary."""
    if event.get("summary_index"):
        builder.add_reasoning("\n\n")


def read_end(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    response = event.get("response")
    if not isinstance(response, dict):
        raise AttemptFailed("bad_answer", "The model server's answer has no message.", is_retryable=True)
    if not builder.has_any:
        # It streams nothing but the end.
        read_response(builder, response)
    else:
        read_ending(builder, response)


READERS: dict[str, Any] = {
    "response.output_item.added": read_added,
    "response.output_item.done": read_done,
    "response.function_call_arguments.delta": read_call_delta,
    "response.function_call_arguments.done": read_call_done,
    "response.output_text.delta": read_text_delta,
    "response.refusal.delta": read_refusal,
    "response.reasoning_summary_part.added": read_next_thought,
    "response.reasoning_summary_text.delta": read_thought,
    "response.reasoning_text.delta": read_thought,
    "response.completed": read_end,
    "response.incomplete": read_end,
    "response.failed": read_end,
    "response.cancelled": read_end,
    # Some servers' word for all of these.
    "response.done": read_end,
}
