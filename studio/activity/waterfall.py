"""The waterfall: what a run did, as bars on one time line."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models.fields.json import KT
from django.utils.translation import gettext as _

from agents.http.pagination import read_page
from devices.models import DeviceCall
from plumbing import clock
from runs.models import Approval, ModelCall, Run, StepRun, ToolCallRecord

LIMIT = 500  # entries of one kind; longer runs are read through their events
WIDTH = 1000
DEVICE_STATES = {"done": "device", "failed": "failed", "expired": "failed", "unknown": "failed"}


@dataclass
class Bar:
    """One thing that took time. `x` and `width` are thousandths of the whole."""

    id: str
    kind: str
    name: str
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    row: Any
    depth: int = 0
    css: str = ""
    x: float = 0
    width: float = 0
    waits: list[tuple[float, float]] = field(default_factory=list)

    @property
    def took_s(self) -> float | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


@dataclass
class Waterfall:
    bars: list[Bar]
    queue_s: float | None
    total_s: float
    is_cut: bool

    @property
    def first_failed(self) -> Bar | None:
        """What the run's error came from, most often."""
        return next((bar for bar in self.bars if bar.state == "failed"), None)


def waterfall(run: Run, now: datetime | None = None) -> Waterfall:
    """Bars in order of their start, with their parts below them. Six bounded queries."""
    now = now or clock.near()
    steps = find_steps(run)
    calls = find_tool_calls(run, steps)
    groups = [steps, find_model_calls(run), calls, find_device_calls(run, calls), find_children(run, steps)]
    bars = sorted((bar for group in groups for bar in group), key=lambda bar: (bar.started_at or now, bar.depth))
    begin, end = run.created_at, run.finished_at or now
    if bars:
        end = max([end, *(bar.finished_at for bar in bars if bar.finished_at)])
    for bar in bars:
        place(bar, begin, end, now)
    queue = (run.started_at - run.created_at).total_seconds() if run.started_at else None
    is_cut = any(len(group) == LIMIT for group in groups)
    return Waterfall(bars, queue, (end - begin).total_seconds(), is_cut)


def place(bar: Bar, begin: datetime, end: datetime, now: datetime) -> None:
    whole = max((end - begin).total_seconds(), 0.001)
    start = bar.started_at or now
    stop = bar.finished_at or (now if bar.started_at else start)
    bar.x = round(max(0.0, (start - begin).total_seconds()) / whole * WIDTH, 1)
    bar.width = round(max(3.0, (stop - start).total_seconds() / whole * WIDTH), 1)
    bar.x = min(bar.x, WIDTH - 3)
    bar.width = min(bar.width, WIDTH - bar.x)


def find_model_calls(run: Run) -> list[Bar]:
    rows = ModelCall.objects.filter(run=run).defer("request", "response").order_by("id")
    calls = rows.annotate(thoughts=KT("response__reasoning"))[:LIMIT]
    return [
        Bar(
            f"model-{call.pk}",
            "model",
            f"{call.provider} {call.model_name}".strip(),
            "failed" if call.error else "ok",
            call.started_at,
            call.started_at + timedelta(milliseconds=call.wall_ms),
            call,
            css="model",
        )
        for call in calls
    ]


def find_tool_calls(run: Run, steps: list[Bar]) -> list[Bar]:
    below = {step.row.call_id: step.depth + 1 for step in steps if step.row.call_id}
    calls, _more = read_page(ToolCallRecord.objects.filter(run=run).order_by("id"), LIMIT)
    approvals = {approval.call_id: approval for approval in Approval.objects.filter(run=run)[:LIMIT]}
    bars = []
    for call in calls:
        call.asked = approvals.get(call.pk)  # type: ignore[attr-defined]
        state = call.outcome or ("waiting" if call.waiting_for else "running")
        depth = below.get(call.pk, 1 if call.parent_call_id else 0)
        css = "wait" if call.waiting_for else state
        bars.append(
            Bar(
                f"call-{call.pk}",
                "tool",
                call.name,
                state,
                call.started_at or call.created_at,
                call.finished_at,
                call,
                depth,
                css,
            )
        )
    return bars


def find_device_calls(run: Run, calls: list[Bar]) -> list[Bar]:
    """Calls sent to a device; each has the id of its tool call."""
    depths = {call.row.pk: call.depth + 1 for call in calls}
    rows, _more = read_page(DeviceCall.objects.filter(run_id=run.pk).select_related("device").order_by("id"), LIMIT)
    return [
        Bar(
            f"device-{row.pk}",
            "device",
            row.device.name if row.device else _("any device"),
            row.state,
            row.created_at,
            row.finished_at,
            row,
            depths.get(row.pk, 1),
            css=DEVICE_STATES.get(str(row.state), "wait"),
        )
        for row in rows
    ]


def find_children(run: Run, steps: list[Bar]) -> list[Bar]:
    below = {step.row.child_id: step.depth + 1 for step in steps if step.row.child_id}
    children, _more = read_page(run.children.select_related("agent", "chain_version__chain").order_by("id"), LIMIT)
    return [
        Bar(
            f"child-{child.pk}",
            "child",
            name_target(child),
            child.status,
            child.created_at,
            child.finished_at,
            child,
            below.get(child.pk, 0),
        )
        for child in children
    ]


def find_steps(run: Run) -> list[Bar]:
    if run.chain_version_id is None:
        return []
    steps, _more = read_page(StepRun.objects.filter(run=run).order_by("id"), LIMIT)
    return [
        Bar(
            f"step-{step.pk}",
            "step",
            f"{step.key}[{step.item}]" if step.item >= 0 else step.key,
            step.status,
            step.started_at,
            step.finished_at,
            step,
            1 if step.item >= 0 else 0,
        )
        for step in steps
    ]


def name_target(run: Run) -> str:
    if run.agent:
        return run.agent.name
    return run.chain_version.chain.name if run.chain_version else _("not routed yet")
