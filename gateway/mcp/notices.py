"""Notifications of a call in progress: how far it is, for a client that sent a token, and log messages,
for a client that set a level.
"""

from collections.abc import Iterator
from typing import Any

from connectors.mcp.messages import notification

from .protocol import LEVELS, RpcRequest

JSON = Any
LONGEST = 500
# The levels of events. That of a tool's own line is its author's.
GRAVE = {
    "run.started": "debug", "tool.called": "debug", "tool.finished": "debug", "step.finished": "debug",
    "approval.requested": "notice", "input.requested": "notice", "run.recovered": "warning", "stuck.warned": "warning",
    "tool.denied": "warning", "model.failed": "error",
}  # fmt: skip


def of_event(rpc: RpcRequest, type: str, data: dict[str, JSON], number: int) -> Iterator[dict[str, JSON]]:
    """`number` grows from event to event."""
    if rpc.progress is not None:
        words = in_progress(type, data)
        if words is not None:
            params = {"progressToken": rpc.progress, "progress": number, "message": words}
            yield notification("notifications/progress", params)
    if not rpc.log_level:
        return
    level = str(data.get("level")) if type == "tool.log" else GRAVE.get(type)
    if level in LEVELS and LEVELS.index(level) >= LEVELS.index(rpc.log_level):
        params = {"level": level, "logger": type, "data": build_log_data(type, data)}
        yield notification("notifications/message", params)


def build_log_data(type: str, data: dict[str, JSON]) -> JSON:
    """What a log message says of an event: a text, or an object where the event has fields."""
    if type != "tool.log":
        message = data.get("message") or data.get("reason") or type
        return in_progress(type, data) or str(message)[:LONGEST]
    fields = data.get("fields")
    if not fields:
        return data["message"]
    return {"message": data["message"], **fields}


def in_progress(type: str, data: dict[str, JSON]) -> str | None:
    """An event in a few words; None for one that nobody waits for."""
    match type:
        case "run.started":
            return "Started."
        case "tool.called":
            return f"Calls {data['name']}."
        case "tool.finished":
            return f"{data['name']}: {data['outcome']}."
        case "tool.progress" | "run.progress":
            return describe_progress(data)[:LONGEST]
        case "step.finished":
            return f"Step {data['key']}: {data['status']}."
        case "approval.requested":
            return f"Waits for the approval of {data['tool']}."
        case "input.requested":
            return f"Asks: {data['prompt'] or data['name']}"[:LONGEST]
    return None


def describe_progress(data: dict[str, JSON]) -> str:
    """What the tool says of its progress, or how much of its work is done."""
    if data.get("message"):
        return str(data["message"])
    share = data.get("fraction")
    if isinstance(share, float | int):
        return f"{share:.0%}"
    return ""
