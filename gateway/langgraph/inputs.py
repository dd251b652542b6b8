"""Messages in LangChain's form as messages of Muster."""

from dataclasses import dataclass, field
from typing import Any

from gateway import histories
from gateway.histories import SentMessage
from gateway.parts import parse_image_url
from runs.intake.messages import checked_parts
from runs.models import Session

from .state import load_thread_messages
from .views import refuse_langgraph_field

JSON = Any
ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "tool": "tool",
         "AIMessageChunk": "assistant"}  # fmt: skip


@dataclass(slots=True)
class Given:
    """What `input` holds: new messages, and the fields of an agent with an input schema of its own."""

    messages: list[SentMessage] = field(default_factory=list)
    results: dict[str, JSON] = field(default_factory=dict)  # of calls, at the end of the list
    more: dict[str, JSON] = field(default_factory=dict)


def parse_graph_input(input: JSON, stored_ids: set[str]) -> Given:
    """Messages with an id that the thread has already are left out. Raises Invalid."""
    if not isinstance(input, dict):
        raise refuse_langgraph_field("input", "“input” must be an object with “messages”.")
    result = Given(more={name: value for name, value in input.items() if name not in ("messages", "ui")})
    messages = input.get("messages", [])
    for place, message in enumerate(messages if isinstance(messages, list) else [messages]):
        if isinstance(message, dict) and message.get("id") in stored_ids:
            continue
        role, content = role_and_content(message, f"input.messages.{place}")
        if role == "tool":
            result.results[str(message.get("tool_call_id"))] = content
        else:
            result.results.clear()
            result.messages.append(SentMessage(role, parse_langgraph_parts(content, f"input.messages.{place}.content")))
    return result


def role_and_content(message: JSON, place: str) -> tuple[str, JSON]:
    if isinstance(message, str):
        return "user", message
    if isinstance(message, list) and len(message) == 2:
        kind, content = message
    elif isinstance(message, dict):
        kind, content = message.get("type") or message.get("role"), message.get("content")
    else:
        raise refuse_langgraph_field(place, "A message is an object with “type” (or “role”) and “content”.")
    if kind in ("system", "developer"):
        raise refuse_langgraph_field(
            place, "Instructions belong to the agent: a thread has none of its own.", "unsupported_message"
        )
    role = ROLES.get(kind) if isinstance(kind, str) else None
    if role is None:
        raise refuse_langgraph_field(f"{place}.type", "A message's type is human, ai or tool.")
    return role, content


def parse_langgraph_parts(content: JSON, place: str) -> list[dict[str, JSON]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise refuse_langgraph_field(place, "The content must be text or a list of blocks.")
    return [parse_langgraph_block(block, f"{place}.{index}") for index, block in enumerate(content)]


def parse_langgraph_block(block: JSON, place: str) -> dict[str, JSON]:
    """Text, and pictures in the three forms that LangChain has had."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "image_url":
        image = block.get("image_url")
        return parse_image_url(image.get("url") if isinstance(image, dict) else image, place)
    if kind == "image" and isinstance(block.get("url"), str):
        return parse_image_url(block["url"], place)
    media_type = next((block[name] for name in ("mime_type", "mimeType") if block.get(name)), "") if kind else ""
    data = (block.get("base64") or block.get("data")) if kind else None
    if kind == "image" and isinstance(data, str):
        return {"type": "image", "data": data, "media_type": media_type or "image/png"}
    message = f"A block of type “{str(kind)[:40]}” cannot be sent: send text or pictures."
    raise refuse_langgraph_field(place, message, "unsupported_message")


def add_state_messages(user: Any, session: Session, values: JSON) -> None:
    """Add the messages in these values to a thread in which nothing is running."""
    content = parse_graph_input(values, {message["id"] for message in load_thread_messages(session)})
    if content.more or content.results:
        raise refuse_langgraph_field("values", "Only messages of type human and ai can be added.", "unsupported_field")
    add_checked_messages(user, session, content.messages)


def add_checked_messages(user: Any, session: Session, messages: list[SentMessage]) -> None:
    """Raises Invalid."""
    checked = [SentMessage(one.role, checked_parts(user, None, one.parts)) for one in messages]
    histories.add_sent(session, checked)
