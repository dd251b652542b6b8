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

HISTORY = 200  # messages that are shown again
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
            if event := build_embed_event(step):
                yield sse(event)


def build_embed_event(step: Step) -> dict[str, Any] | None:
    if step.kind == BEGIN:
        return {"type": "begin"}
    if step.kind == TEXT:
        return {"type": "text", "text": step.data["text"]}
    if step.kind == REPLACED:
        return {"type": "replaced", "text": step.data["text"]}
    if step.kind == END:
        return build_embed_end(step.data)
    return {"type": "state", "state": STATES[step.kind]} if step.kind in STATES else None


def build_embed_end(data: dict[str, Any]) -> dict[str, Any]:
    status = ENDS.get(data["status"], "failed")
    if status != "failed":
        return {"type": "end", "status": status}
    is_spent = (data.get("error") or {}).get("code") == "budget_exhausted"
    return {"type": "end", "status": status, "message": SPENT if is_spent else FAILED}


def build_visitor_conversation(embed: Embed, session: Any) -> dict[str, Any]:
    """The messages of runs for visitors, and the run in progress. Messages of the owner are not shown."""
    rows = Message.objects.filter(session=session, session__owner=embed.owner_id, run__embed=embed.pk)
    repeated = Run.objects.filter(session=session, embed=embed.pk, metadata__has_key="instead_of")
    replaced = {id for ids in repeated.values_list("metadata__instead_of", flat=True) for id in ids}
    rows = rows.filter(role__in=[Message.Role.USER, Message.Role.ASSISTANT]).exclude(run__in=replaced)
    latest = rows.order_by("-seq")[:HISTORY]
    live = Run.objects.filter(session=session, embed=embed.pk, parent=None).live().order_by("-id").first()
    of_live = live.pk if live else None  # its reply is streamed from the beginning
    shown = [row for row in reversed(latest) if row.words and (row.run_id != of_live or row.role == Message.Role.USER)]
    return {"messages": [{"role": row.role, "text": row.words} for row in shown], "run": of_live}
