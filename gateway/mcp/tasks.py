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
from runs.events.record import serialize_event
from runs.exceptions import RunFinished
from runs.models import Run, RunEvent
from runs.queue import endings

from . import questions, results
from .catalogue import SCOPES, Target, build_run_target, build_started_runs_query
from .protocol import ORIGIN, PARAMS, TASKS, Fault, RpcRequest, need

JSON = Any
PAGE = 50
POLL_MS = 1000
RELATED = "io.modelcontextprotocol/related-task"


def is_wanted(rpc: RpcRequest) -> bool:
    """Whether the answer to this call is a task."""
    return rpc.can("extensions", TASKS) if rpc.is_modern else isinstance(rpc.params.get("task"), dict)


def build_created_task(rpc: RpcRequest, turn: Turn) -> dict[str, JSON]:
    task = serialize_mcp_task(rpc, turn.run)
    task["status"] = "working"
    return {"resultType": "task", **task} if rpc.is_modern else {"task": task}


def load_client_task(rpc: RpcRequest) -> Run:
    """The run of a task, if it is one of this person's. Raises Fault."""
    if rpc.is_modern:
        need(rpc, "extensions", TASKS)
    turn = turns.find_turn(rpc.user, rpc.text("taskId"))
    if (
        turn is None
        or turn.after
        or ORIGIN not in turn.run.metadata
        or not rpc.may(SCOPES[build_run_target(turn.run).kind])
    ):
        raise Fault(PARAMS, "Task not found")
    return turn.run


def get(rpc: RpcRequest) -> dict[str, JSON]:
    run = load_client_task(rpc)
    state = serialize_mcp_task(rpc, run)
    if rpc.is_modern and state["status"] == "completed":
        state["result"] = build_task_result(rpc, build_run_target(run), run)
    return state


def serialize_mcp_task(rpc: RpcRequest, run: Run) -> dict[str, JSON]:
    waits = {} if run.is_done else questions.open_ones(rpc, run.pk)
    status = get_mcp_task_status(rpc, run, bool(waits))
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


def get_mcp_task_status(rpc: RpcRequest, run: Run, is_asking: bool) -> str:
    """In 2026-07-28 a run that failed is a completed task, whose result says so."""
    if run.is_done:
        if run.status == Run.Status.CANCELLED:
            return "cancelled"
        return "completed" if rpc.is_modern or run.status in results.WELL else "failed"
    return "input_required" if is_asking else "working"


def build_task_result(rpc: RpcRequest, target: Target, run: Run) -> dict[str, JSON]:
    row = RunEvent.objects.filter(run=run, type="run.finished").select_related("payload").get()
    frame = Frame.of({**serialize_event(row), "data": row.payload.data if row.data.get("is_cut") else row.data})
    result = results.build_run_result(target, run, frame.data)
    return {"resultType": "complete", **result} if rpc.is_modern else result


def update(rpc: RpcRequest) -> dict[str, JSON]:
    """Answers to the questions of a task; those that are not open are left out."""
    run = load_client_task(rpc)
    questions.record_client_answers(rpc, rpc.object("inputResponses"), run.pk)
    return {}


def cancel_mcp_task(rpc: RpcRequest) -> dict[str, JSON]:
    run = load_client_task(rpc)
    try:
        endings.cancel_run(run, by=rpc.user, reason="cancelled by the client")
    except RunFinished:
        if not rpc.is_modern:
            raise Fault(PARAMS, f"The task has ended already: {get_mcp_task_status(rpc, run, False)}.")
    run.refresh_from_db(fields=["status", "finished_at"])
    return {} if rpc.is_modern else {**serialize_mcp_task(rpc, run), "status": "cancelled"}


def list_mcp_tasks(rpc: RpcRequest, after: str | None) -> tuple[list[dict[str, JSON]], str | None]:
    """The person's tasks, newest first, and where the page ends."""
    rows = build_started_runs_query(rpc).select_related(*turns.RUN_JOINS).order_by("-pk")
    if after is not None:
        rows = rows.filter(pk__lt=UUID(after))
    page = list(rows[: PAGE + 1])
    tasks = [serialize_mcp_task(rpc, row) for row in page[:PAGE]]
    return tasks, str(page[PAGE - 1].pk) if len(page) > PAGE else None
