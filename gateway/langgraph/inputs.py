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
class GraphInput:
    """What `input` holds: new messages, and the fields of an agent with an input schema of its own."""

    messages: list[SentMessage] = field(default_factory=list)
    # Results of calls, at the end of the list.
    results: dict[str, JSON] = field(default_factory=dict)
    more: dict[str, JSON] = field(default_factory=dict)


def parse_graph_input(input: JSON, stored_ids: set[str]) -> GraphInput:
    """Messages with an id that the thread has already are left out. Raises Invalid."""
    if not isinstance(input, dict):
        raise refuse_langgraph_field("input", "“input” must be an object with “messages”.")
    more = {name: value for name, value in input.items() if name not in ("messages", "ui")}
    graph_input = GraphInput(more=more)
    messages = input.get("messages", [])
    if not isinstance(messages, list):
        messages = [messages]
    for place, message in enumerate(messages):
        # Clients of LangGraph send the whole list again, with the ids that the answers had.
        if isinstance(message, dict) and message.get("id") in stored_ids:
            continue
        param = f"input.messages.{place}"
        role, content = parse_role_and_content(message, param)
        if role == "tool":
            graph_input.results[str(message.get("tool_call_id"))] = content
        else:
            # Only results at the end of the list answer calls that wait.
            graph_input.results.clear()
            parts = parse_langgraph_parts(content, f"{param}.content")
            graph_input.messages.append(SentMessage(role, parts))
    return graph_input


def parse_role_and_content(message: JSON, place: str) -> tuple[str, JSON]:
    """Of a text, a pair of role and content, or an object. Raises Invalid."""
    if isinstance(message, str):
        return "user", message
    if isinstance(message, list) and len(message) == 2:
        kind, content = message
    elif isinstance(message, dict):
        kind = message.get("type") or message.get("role")
        content = message.get("content")
    else:
        raise refuse_langgraph_field(place, "A message is an object with “type” (or “role”) and “content”.")
    if kind in ("system", "developer"):
        refusal = "Instructions belong to the agent: a thread has none of its own."
        raise refuse_langgraph_field(place, refusal, "unsupported_message")
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
        url = block.get("image_url")
        if isinstance(url, dict):
            url = url.get("url")
        return parse_image_url(url, place)
    if kind == "image":
        if isinstance(block.get("url"), str):
            return parse_image_url(block["url"], place)
        data = block.get("base64") or block.get("data")
        media_type = block.get("mime_type") or block.get("mimeType") or "image/png"
        if isinstance(data, str):
            return {"type": "image", "data": data, "media_type": media_type}
    message = f"A block of type “{str(kind)[:40]}” cannot be sent: send text or pictures."
    raise refuse_langgraph_field(place, message, "unsupported_message")


def add_state_messages(user: Any, session: Session, values: JSON) -> None:
    """Add the messages in these values to a thread in which nothing is running. Raises Invalid."""
    stored_ids = {message["id"] for message in load_thread_messages(session)}
    content = parse_graph_input(values, stored_ids)
    if content.more or content.results:
        raise refuse_langgraph_field("values", "Only messages of type human and ai can be added.", "unsupported_field")
    add_checked_messages(user, session, content.messages)


def add_checked_messages(user: Any, session: Session, messages: list[SentMessage]) -> None:
    """Store messages whose files and pictures this person may use. Raises Invalid."""
    checked = []
    for message in messages:
        parts = checked_parts(user, None, message.parts)
        checked.append(SentMessage(message.role, parts))
    histories.add_sent(session, checked)
