"""Notifications of a call in progress: how far it is, for a client that sent a token, and log messages,
for a client that set a level.
"""

from collections.abc import Iterator
from typing import Any

from connectors.mcp.messages import notification

from .protocol import LEVELS, RpcRequest

JSON = Any
LONGEST = 500
GRAVE = {  # the level of an event; those of a tool's own line are its author's
    "run.started": "debug", "tool.called": "debug", "tool.finished": "debug", "step.finished": "debug",
    "approval.requested": "notice", "input.requested": "notice", "run.recovered": "warning", "stuck.warned": "warning",
    "tool.denied": "warning", "model.failed": "error",
}  # fmt: skip


def of_event(rpc: RpcRequest, type: str, data: dict[str, JSON], number: int) -> Iterator[dict[str, JSON]]:
    """`number` grows from event to event."""
    if rpc.progress is not None and (words := in_progress(type, data)) is not None:
        params = {"progressToken": rpc.progress, "progress": number, "message": words}
        yield notification("notifications/progress", params)
    level = str(data.get("level")) if type == "tool.log" else GRAVE.get(type)
    if rpc.log_level and level in LEVELS and LEVELS.index(level) >= LEVELS.index(rpc.log_level):
        yield notification(
            "notifications/message", {"level": level, "logger": type, "data": build_log_data(type, data)}
        )


def build_log_data(type: str, data: dict[str, JSON]) -> JSON:
    if type != "tool.log":
        return in_progress(type, data) or str(data.get("message") or data.get("reason") or type)[:LONGEST]
    fields = data.get("fields")
    return {"message": data["message"], **fields} if fields else data["message"]


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
            share = data.get("fraction")
            words = str(data.get("message") or "") or (f"{share:.0%}" if isinstance(share, float | int) else "")
            return words[:LONGEST]
        case "step.finished":
            return f"Step {data['key']}: {data['status']}."
        case "approval.requested":
            return f"Waits for the approval of {data['tool']}."
        case "input.requested":
            return f"Asks: {data['prompt'] or data['name']}"[:LONGEST]
    return None
