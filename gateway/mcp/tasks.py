"""Tasks: runs that a client reads by their id instead of holding a stream open.

In 2025-11-25 the client asks for a task; `tasks/result` waits for its end. In 2026-07-28 (extension
io.modelcontextprotocol/tasks) every call of an agent or a chain by a client with the extension is one,
and `tasks/get` has the result.
"""

from typing import Any
from uuid import UUID

from gateway import turns
from gateway.turns import Turn
from runs.events.frames import Frame
from runs.events.record import as_json
from runs.exceptions import RunFinished
from runs.lifecycle import endings
from runs.models import Run, RunEvent

from . import questions, results
from .catalogue import SCOPES, Target, target_of
from .protocol import ORIGIN, PARAMS, TASKS, Asked, Fault, need

JSON = Any
PAGE = 50
POLL_MS = 1000
RELATED = "io.modelcontextprotocol/related-task"


def is_wanted(asked: Asked) -> bool:
    """Whether the answer to this call is a task."""
    return asked.can("extensions", TASKS) if asked.is_modern else isinstance(asked.params.get("task"), dict)


def created(asked: Asked, turn: Turn) -> dict[str, JSON]:
    found = described(asked, turn.run)
    found["status"] = "working"
    return {"resultType": "task", **found} if asked.is_modern else {"task": found}


def found(asked: Asked) -> Run:
    """The run of a task, if it is one of this person's. Raises Fault."""
    if asked.is_modern:
        need(asked, "extensions", TASKS)
    turn = turns.parsed(asked.user, asked.text("taskId"))
    if turn is None or turn.after or ORIGIN not in turn.run.metadata or not asked.may(SCOPES[target_of(turn.run).kind]):
        raise Fault(PARAMS, "Task not found")
    return turn.run


def get(asked: Asked) -> dict[str, JSON]:
    run = found(asked)
    state = described(asked, run)
    if asked.is_modern and state["status"] == "completed":
        state["result"] = result_of(asked, target_of(run), run)
    return state


def described(asked: Asked, run: Run) -> dict[str, JSON]:
    waits = {} if run.is_done else questions.open_ones(asked, run.pk)
    status = status_of(asked, run, bool(waits))
    times = {"createdAt": run.created_at.isoformat(), "lastUpdatedAt": (run.finished_at or run.created_at).isoformat()}
    lasts = {"ttlMs": None, "pollIntervalMs": POLL_MS} if asked.is_modern else {"ttl": None, "pollInterval": POLL_MS}
    requests = {"inputRequests": waits} if waits and asked.is_modern else {}
    return {
        "taskId": run.pk.hex,
        "status": status,
        "statusMessage": f"The run is {run.status}.",
        **times,
        **lasts,
        **requests,
    }


def status_of(asked: Asked, run: Run, is_asking: bool) -> str:
    """In 2026-07-28 a run that failed is a completed task, whose result says so."""
    if run.is_done:
        if run.status == Run.Status.CANCELLED:
            return "cancelled"
        return "completed" if asked.is_modern or run.status in results.WELL else "failed"
    return "input_required" if is_asking else "working"


def result_of(asked: Asked, target: Target, run: Run) -> dict[str, JSON]:
    row = RunEvent.objects.filter(run=run, type="run.finished").select_related("payload").get()
    frame = Frame.of({**as_json(row), "data": row.payload.data if row.data.get("is_cut") else row.data})
    result = results.of_run(target, run, frame.data)
    return {"resultType": "complete", **result} if asked.is_modern else result


def update(asked: Asked) -> dict[str, JSON]:
    """Answers to the questions of a task; those that are not open are left out."""
    run = found(asked)
    questions.settle(asked, asked.object("inputResponses"), run.pk)
    return {}


def cancel(asked: Asked) -> dict[str, JSON]:
    run = found(asked)
    try:
        endings.cancel(run, by=asked.user, reason="cancelled by the client")
    except RunFinished:
        if not asked.is_modern:
            raise Fault(PARAMS, f"The task has ended already: {status_of(asked, run, False)}.")
    run.refresh_from_db(fields=["status", "finished_at"])
    return {} if asked.is_modern else {**described(asked, run), "status": "cancelled"}


def listed(asked: Asked, after: str | None) -> tuple[list[dict[str, JSON]], str | None]:
    """The person's tasks, newest first, and where the page ends."""
    rows = Run.objects.visible_to(asked.user).select_related(*turns.RUN_JOINS).order_by("-pk")
    rows = rows.filter(parent=None, metadata__has_key=ORIGIN)
    if after is not None:
        rows = rows.filter(pk__lt=UUID(after))
    page = list(rows[: PAGE + 1])
    tasks = [described(asked, row) for row in page[:PAGE]]
    return tasks, str(page[PAGE - 1].pk) if len(page) > PAGE else None
