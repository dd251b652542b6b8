"""Messages of model calls in the form of OpenTelemetry's conventions: roles with parts, as JSON.

https://opentelemetry.io/docs/specs/semconv/gen-ai/ (gen-ai-input-messages.json, gen-ai-output-messages.json)
"""

import json
from collections.abc import Iterator
from typing import Any

JSON = Any
# Characters of one text.
MAX_TEXT = 20_000
# Characters of the messages of one call: the oldest are left out.
MAX_MESSAGES = 100_000


def input_messages(request: JSON) -> str | None:
    """The messages that the model was sent; None if they were not stored."""
    messages = (request or {}).get("messages")
    if not isinstance(messages, list):
        return None
    newest_first: list[JSON] = []
    room = MAX_MESSAGES
    for message in reversed(messages):
        one = {"role": str(message.get("role")), "parts": list(iterate_trace_parts(message))}
        room -= len(serialize_trace_value(one))
        if room < 0:
            break
        newest_first.append(one)
    return serialize_trace_value(newest_first[::-1])


def output_messages(response: JSON) -> str | None:
    if not response:
        return None
    calls = response.get("tool_calls") or []
    reason = "tool_call" if calls else "stop"
    parts = list(iterate_trace_parts({"content": response.get("text"), "tool_calls": calls}))
    return serialize_trace_value([{"role": "assistant", "parts": parts, "finish_reason": reason}])


def iterate_trace_parts(message: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
    """The texts and tool calls of a message; of the result of a tool, one part."""
    content = message.get("content")
    if message.get("role") == "tool":
        response = cut_trace_text(serialize_trace_value(content))
        yield {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": response}
        return
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        text = part if isinstance(part, str) else read_part_text(part)
        if text:
            yield {"type": "text", "content": cut_trace_text(text)}
    for call in message.get("tool_calls") or ():
        arguments = call.get("arguments")
        serialized = serialize_trace_value(arguments)
        if len(serialized) > MAX_TEXT:
            # A part of JSON is no JSON: readers must not take it for the arguments.
            arguments = {"cut": cut_trace_text(serialized)}
        yield {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": arguments}


def read_part_text(part: JSON) -> str:
    """The text of a part, or its kind in brackets (an image, a file)."""
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    if isinstance(text, str):
        return text
    return f"[{part.get('type', 'file')}]"


def cut_trace_text(text: str) -> str:
    return text[:MAX_TEXT]


def serialize_trace_value(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
