"""Tasks: runs that a client reads by their id instead of holding a stream open.

In 2025-11-25 the client asks for a task; `tasks/result` waits for its end. In 2026-07-28 (extension
io.modelcontextprotocol/tasks) every call of an agent or a chain by a client with the extension is one,
and `tasks/get` has the result.
"""

from typing import Any
from uuid import UUID

from gateway import turns
from gateway.turns import Turn
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
    if rpc.is_modern:
        return rpc.can("extensions", TASKS)
    return isinstance(rpc.params.get("task"), dict)


def build_created_task(rpc: RpcRequest, turn: Turn) -> dict[str, JSON]:
    task = serialize_mcp_task(rpc, turn.run)
    # What the run has done meanwhile is not told here: a created task works.
    task["status"] = "working"
    if rpc.is_modern:
        return {"resultType": "task", **task}
    return {"task": task}


def load_client_task(rpc: RpcRequest) -> Run:
    """The run of a task, if it is one of this person's. Raises Fault."""
    if rpc.is_modern:
        need(rpc, "extensions", TASKS)
    turn = turns.find_turn(rpc.user, rpc.text("taskId"))
    is_task = turn is not None and turn.after == 0 and ORIGIN in turn.run.metadata
    if not is_task or not rpc.may(SCOPES[build_run_target(turn.run).kind]):
        raise Fault(PARAMS, "Task not found")
    return turn.run


def get(rpc: RpcRequest) -> dict[str, JSON]:
    run = load_client_task(rpc)
    state = serialize_mcp_task(rpc, run)
    if rpc.is_modern and state["status"] == "completed":
        state["result"] = build_task_result(rpc, build_run_target(run), run)
    return state


def serialize_mcp_task(rpc: RpcRequest, run: Run) -> dict[str, JSON]:
    """A task in the form of the client's version: the names of two fields differ."""
    open_questions = {} if run.is_done else questions.open_ones(rpc, run.pk)
    updated_at = run.finished_at or run.created_at
    task: dict[str, JSON] = {
        "taskId": run.pk.hex,
        "status": get_mcp_task_status(rpc, run, bool(open_questions)),
        "statusMessage": f"The run is {run.status}.",
        "createdAt": run.created_at.isoformat(),
        "lastUpdatedAt": updated_at.isoformat(),
    }
    if rpc.is_modern:
        task["ttlMs"] = None
        task["pollIntervalMs"] = POLL_MS
        if open_questions:
            task["inputRequests"] = open_questions
    else:
        task["ttl"] = None
        task["pollInterval"] = POLL_MS
    return task


def get_mcp_task_status(rpc: RpcRequest, run: Run, is_asking: bool) -> str:
    """In 2026-07-28 a run that failed is a completed task, whose result says so."""
    if not run.is_done:
        return "input_required" if is_asking else "working"
    if run.status == Run.Status.CANCELLED:
        return "cancelled"
    if rpc.is_modern or run.status in results.WELL:
        return "completed"
    return "failed"


def build_task_result(rpc: RpcRequest, target: Target, run: Run) -> dict[str, JSON]:
    row = RunEvent.objects.filter(run=run, type="run.finished").select_related("payload").get()
    end = turns.build_whole_frame(row).data
    result = results.build_run_result(target, run, end)
    if rpc.is_modern:
        return {"resultType": "complete", **result}
    return result


def update(rpc: RpcRequest) -> dict[str, JSON]:
    """Answers to the questions of a task; those that are not open are left out."""
    run = load_client_task(rpc)
    questions.record_client_answers(rpc, rpc.object("inputResponses"), run.pk)
    return {}


def cancel_mcp_task(rpc: RpcRequest) -> dict[str, JSON]:
    """`tasks/cancel`. In 2026-07-28 a task that has ended is no error: it says nothing. Raises Fault."""
    run = load_client_task(rpc)
    try:
        endings.cancel_run(run, by=rpc.user, reason="cancelled by the client")
    except RunFinished:
        if not rpc.is_modern:
            raise Fault(PARAMS, f"The task has ended already: {get_mcp_task_status(rpc, run, False)}.")
    run.refresh_from_db(fields=["status", "finished_at"])
    if rpc.is_modern:
        return {}
    task = serialize_mcp_task(rpc, run)
    task["status"] = "cancelled"
    return task


def list_mcp_tasks(rpc: RpcRequest, after: str | None) -> tuple[list[dict[str, JSON]], str | None]:
    """The person's tasks, newest first, and where the page ends."""
    rows = build_started_runs_query(rpc).select_related(*turns.RUN_JOINS).order_by("-pk")
    if after is not None:
        rows = rows.filter(pk__lt=UUID(after))
    runs = list(rows[: PAGE + 1])
    page = runs[:PAGE]
    tasks = [serialize_mcp_task(rpc, run) for run in page]
    last = str(page[-1].pk) if len(runs) > PAGE else None
    return tasks, last
