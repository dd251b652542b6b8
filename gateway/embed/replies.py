"""What a visitor sees of a run: the text as it is written, whether it works or waits, and how it ended. No calls, no
results, no reasons.
"""

from collections.abc import AsyncIterator
from typing import Any

from gateway import turns
from gateway.reading import APPROVAL, BEGIN, CALL, END, QUESTION, REPLACED, RESULT, TEXT, Reading, Step
from gateway.sse import HEARTBEAT, sse
from gateway.turns import Pause, Turn
from runs.events.frames import Frame
from runs.models import Embed, Message, Run

# Messages that are shown again.
HISTORY = 200
STATES = {CALL: "working", RESULT: "thinking", APPROVAL: "waiting", QUESTION: "waiting"}
ENDS = {"succeeded": "done", "partial": "done", "cancelled": "stopped"}
SPENT = "This chat has reached its limit. Please try again later."
FAILED = "Something went wrong. Please try again."


class Patient(Pause):
    """A visitor decides nothing, so what the run asks for does not end the stream."""

    def ends_with(self, frame: Frame) -> bool:
        return frame.is_last


async def following(turn: Turn) -> AsyncIterator[bytes]:
    """The reply from its beginning, also when a page comes back to it."""
    reading = Reading(for_approvals=False)
    reading.pause = Patient()
    yield sse({"type": "run", "run": str(turn.run.pk)})
    async for frame in turns.stream_turn_frames(turn, reading.pause):
        if frame.type == "heartbeat":
            yield HEARTBEAT
        for step in reading.take(frame):
            event = build_embed_event(step)
            if event:
                yield sse(event)


def build_embed_event(step: Step) -> dict[str, Any] | None:
    """What a page hears of a step; None for one that is not the visitor's business."""
    if step.kind == BEGIN:
        return {"type": "begin"}
    if step.kind == TEXT:
        return {"type": "text", "text": step.data["text"]}
    if step.kind == REPLACED:
        return {"type": "replaced", "text": step.data["text"]}
    if step.kind == END:
        return build_embed_end(step.data)
    if step.kind in STATES:
        return {"type": "state", "state": STATES[step.kind]}
    return None


def build_embed_end(data: dict[str, Any]) -> dict[str, Any]:
    """The last event of a reply, without anything of the agent's that a visitor should not know."""
    status = ENDS.get(data["status"], "failed")
    if status != "failed":
        return {"type": "end", "status": status}
    error = data.get("error") or {}
    # Visitors are told no reason but this one, which they can wait for.
    is_spent = error.get("code") == "budget_exhausted"
    return {"type": "end", "status": status, "message": SPENT if is_spent else FAILED}


def build_visitor_conversation(embed: Embed, session: Any) -> dict[str, Any]:
    """The messages of runs for visitors, and the run in progress. Messages of the owner are not shown."""
    runs = Run.objects.filter(session=session, embed=embed.pk)
    # Runs whose place another one took, as their answers failed: the message would be shown twice.
    replaced: set[str] = set()
    for ids in runs.filter(metadata__has_key="instead_of").values_list("metadata__instead_of", flat=True):
        replaced.update(ids)
    rows = Message.objects.filter(session=session, session__owner=embed.owner_id, run__embed=embed.pk)
    rows = rows.filter(role__in=[Message.Role.USER, Message.Role.ASSISTANT]).exclude(run__in=replaced)
    latest = rows.order_by("-seq")[:HISTORY]
    live_run = runs.filter(parent=None).live().order_by("-id").first()
    live_id = live_run.pk if live_run else None
    messages = []
    for row in reversed(latest):
        # The reply of the run in progress is streamed from the beginning.
        is_streamed = row.run_id == live_id and row.role != Message.Role.USER
        if row.words and not is_streamed:
            messages.append({"role": row.role, "text": row.words})
    return {"messages": messages, "run": live_id}
