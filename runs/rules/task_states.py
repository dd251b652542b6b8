"""The state of a run as a task of the A2A protocol."""

from typing import Any

SUBMITTED, WORKING = "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"
INPUT_REQUIRED, AUTH_REQUIRED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"
COMPLETED, FAILED = "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"
CANCELED, REJECTED = "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"
BY_STATUS = {
    "queued": SUBMITTED, "running": WORKING, "waiting": WORKING, "succeeded": COMPLETED, "partial": COMPLETED,
    "failed": FAILED, "expired": FAILED, "cancelled": CANCELED,
}  # fmt: skip
# The error of a run whose message a hook refused.
REFUSED = "message_denied"
# By `waiting_for`; the caller cannot end other waits.
BY_WAIT = {"input": INPUT_REQUIRED, "approval": AUTH_REQUIRED}


# Events that change the state.
TOLD = ("run.started", "run.waiting", "run.resumed", "run.finished")


def state_after(type: str, data: dict[str, Any]) -> str:
    """The state after one of those events."""
    if type == "run.finished":
        return choose_task_state(data["status"], error=data.get("error"))
    if type == "run.waiting":
        return choose_task_state("waiting", data["waiting_for"])
    return WORKING


def choose_task_state(status: str, waiting_for: str = "", error: dict[str, Any] | None = None) -> str:
    """The task's state for a run's status. A message that a hook refused is a rejected task."""
    if status == "waiting":
        return BY_WAIT.get(waiting_for, WORKING)
    if status == "failed" and error and error.get("code") == REFUSED:
        return REJECTED
    return BY_STATUS[status]
