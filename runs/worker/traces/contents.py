"""Messages of model calls in the form of OpenTelemetry's conventions: roles with parts, as JSON.

https://opentelemetry.io/docs/specs/semconv/gen-ai/ (gen-ai-input-messages.json, gen-ai-output-messages.json)
"""

import json
from collections.abc import Iterator
from typing import Any

JSON = Any
MAX_TEXT = 20_000  # characters of one text
MAX_MESSAGES = 100_000  # characters of the messages of one call: the oldest are left out


def input_messages(request: JSON) -> str | None:
    """The messages that the model was sent; None if they were not stored."""
    messages = (request or {}).get("messages")
    if not isinstance(messages, list):
        return None
    shown: list[JSON] = []
    room = MAX_MESSAGES
    for message in reversed(messages):
        one = {"role": str(message.get("role")), "parts": list(iterate_trace_parts(message))}
        room -= len(serialize_trace_value(one))
        if room < 0:
            break
        shown.insert(0, one)
    return serialize_trace_value(shown)


def output_messages(response: JSON) -> str | None:
    if not response:
        return None
    calls = response.get("tool_calls") or []
    message = {"content": response.get("text"), "tool_calls": calls}
    reason = "tool_call" if calls else "stop"
    return serialize_trace_value(
        [{"role": "assistant", "parts": list(iterate_trace_parts(message)), "finish_reason": reason}]
    )


def iterate_trace_parts(message: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
    content = message.get("content")
    if message.get("role") == "tool":
        yield {
            "type": "tool_call_response",
            "id": message.get("tool_call_id"),
            "response": cut_trace_text(serialize_trace_value(content)),
        }
        return
    for part in content if isinstance(content, list) else [content]:
        text = part if isinstance(part, str) else read_part_text(part)
        if text:
            yield {"type": "text", "content": cut_trace_text(text)}
    for call in message.get("tool_calls") or ():
        arguments = call.get("arguments")
        whole = len(serialize_trace_value(arguments)) <= MAX_TEXT
        value = arguments if whole else {"cut": cut_trace_text(serialize_trace_value(arguments))}
        yield {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": value}


def read_part_text(part: JSON) -> str:
    """The text of a part, or its kind in brackets (an image, a file)."""
    if not isinstance(part, dict):
        return ""
    return str(part["text"]) if isinstance(part.get("text"), str) else f"[{part.get('type', 'file')}]"


def cut_trace_text(text: str) -> str:
    return text[:MAX_TEXT]


def serialize_trace_value(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
