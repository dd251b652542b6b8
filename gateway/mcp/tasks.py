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
from runs.models import Run, RunEvent
from runs.queue import endings

from . import questions, results
from .catalogue import SCOPES, Target, started, target_of
from .protocol import ORIGIN, PARAMS, TASKS, Fault, RpcRequest, need

JSON = Any
PAGE = 50
POLL_MS = 1000
RELATED = "io.modelcontextprotocol/related-task"


def is_wanted(rpc: RpcRequest) -> bool:
    """Whether the answer to this call is a task."""
    return rpc.can("extensions", TASKS) if rpc.is_modern else isinstance(rpc.params.get("task"), dict)


def created(rpc: RpcRequest, turn: Turn) -> dict[str, JSON]:
    task = described(rpc, turn.run)
    task["status"] = "working"
    return {"resultType": "task", **task} if rpc.is_modern else {"task": task}


def found(rpc: RpcRequest) -> Run:
    """The run of a task, if it is one of this person's. Raises Fault."""
    if rpc.is_modern:
        need(rpc, "extensions", TASKS)
    turn = turns.parsed(rpc.user, rpc.text("taskId"))
    if turn is None or turn.after or ORIGIN not in turn.run.metadata or not rpc.may(SCOPES[target_of(turn.run).kind]):
        raise Fault(PARAMS, "Task not found")
    return turn.run


def get(rpc: RpcRequest) -> dict[str, JSON]:
    run = found(rpc)
    state = described(rpc, run)
    if rpc.is_modern and state["status"] == "completed":
        state["result"] = result_of(rpc, target_of(run), run)
    return state


def described(rpc: RpcRequest, run: Run) -> dict[str, JSON]:
    waits = {} if run.is_done else questions.open_ones(rpc, run.pk)
    status = status_of(rpc, run, bool(waits))
    times = {"createdAt": run.created_at.isoformat(), "lastUpdatedAt": (run.finished_at or run.created_at).isoformat()}
    lasts = {"ttlMs": None, "pollIntervalMs": POLL_MS} if rpc.is_modern else {"ttl": None, "pollInterval": POLL_MS}
    requests = {"inputRequests": waits} if waits and rpc.is_modern else {}
    return {
        "taskId": run.pk.hex,
        "status": status,
        "statusMessage": f"The run is {run.status}.",
        **times,
        **lasts,
        **requests,
    }


def status_of(rpc: RpcRequest, run: Run, is_asking: bool) -> str:
    """In 2026-07-28 a run that failed is a completed task, whose result says so."""
    if run.is_done:
        if run.status == Run.Status.CANCELLED:
            return "cancelled"
        return "completed" if rpc.is_modern or run.status in results.WELL else "failed"
    return "input_required" if is_asking else "working"


def result_of(rpc: RpcRequest, target: Target, run: Run) -> dict[str, JSON]:
    row = RunEvent.objects.filter(run=run, type="run.finished").select_related("payload").get()
    frame = Frame.of({**as_json(row), "data": row.payload.data if row.data.get("is_cut") else row.data})
    result = results.of_run(target, run, frame.data)
    return {"resultType": "complete", **result} if rpc.is_modern else result


def update(rpc: RpcRequest) -> dict[str, JSON]:
    """Answers to the questions of a task; those that are not open are left out."""
    run = found(rpc)
    questions.settle(rpc, rpc.object("inputResponses"), run.pk)
    return {}


def cancel(rpc: RpcRequest) -> dict[str, JSON]:
    run = found(rpc)
    try:
        endings.cancel(run, by=rpc.user, reason="cancelled by the client")
    except RunFinished:
        if not rpc.is_modern:
            raise Fault(PARAMS, f"The task has ended already: {status_of(rpc, run, False)}.")
    run.refresh_from_db(fields=["status", "finished_at"])
    return {} if rpc.is_modern else {**described(rpc, run), "status": "cancelled"}


def listed(rpc: RpcRequest, after: str | None) -> tuple[list[dict[str, JSON]], str | None]:
    """The person's tasks, newest first, and where the page ends."""
    rows = started(rpc).select_related(*turns.RUN_JOINS).order_by("-pk")
    if after is not None:
        rows = rows.filter(pk__lt=UUID(after))
    page = list(rows[: PAGE + 1])
    tasks = [described(rpc, row) for row in page[:PAGE]]
    return tasks, str(page[PAGE - 1].pk) if len(page) > PAGE else None
