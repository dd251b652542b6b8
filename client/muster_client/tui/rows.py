"""Rows of the tables as cells."""

from __future__ import annotations

from rich.text import Text

from .._async.questions import AsyncApproval
from .._async.runs import AsyncRun
from ..cli.output import STYLES, compact, line
from ..cli.shown import format_run_seconds

RUNS = ("status", "who", "seconds", "cost", "trigger", "run")
APPROVALS = ("tool", "arguments", "reason")


def run_cells(run: AsyncRun) -> list[Text]:
    data = run.data
    status = f"waiting ({run.waiting_for})" if run.waiting_for else run.status
    who = data.get("agent") or data.get("chain") or ""
    trigger = data.get("trigger") or ""
    cost = data["usage"]["cost"]
    cells = [Text(status, style=STYLES.get(run.status, ""))]
    for value in (who, format_run_seconds(data), cost, trigger, run.id):
        cell = Text(line(value, 60))
        cells.append(cell)
    return cells


def approval_cells(approval: AsyncApproval) -> list[Text]:
    tool = Text(line(approval.tool, 40), style="bold")
    arguments = Text(compact(approval.arguments, 60))
    reason = Text(line(approval.data.get("reason") or "", 60))
    return [tool, arguments, reason]
