"""The waterfall: what a run did, as bars on one time line."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from django.db.models.fields.json import KT
from django.utils.translation import gettext as _

from agents.http.pagination import read_page
from devices.models import DeviceCall
from plumbing import clock
from runs.models import Approval, ModelCall, Run, StepRun, ToolCallRecord

# Entries of one kind; longer runs are read through their events.
LIMIT = 500
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
    bars = sorted(chain.from_iterable(groups), key=lambda bar: (bar.started_at or now, bar.depth))
    begin = run.created_at
    # A call may end after its run, such as one on a device that was offline.
    ends = [bar.finished_at for bar in bars if bar.finished_at]
    end = max([run.finished_at or now, *ends])
    for bar in bars:
        place_waterfall_bar(bar, begin, end, now)
    queue_s = None
    if run.started_at:
        queue_s = (run.started_at - begin).total_seconds()
    is_cut = any(len(group) == LIMIT for group in groups)
    return Waterfall(bars, queue_s, (end - begin).total_seconds(), is_cut)


def place_waterfall_bar(bar: Bar, begin: datetime, end: datetime, now: datetime) -> None:
    """Sets where the bar begins and how wide it is."""
    whole_s = max((end - begin).total_seconds(), 0.001)
    start = bar.started_at or now
    stop = bar.finished_at or now
    before_s = max(0.0, (start - begin).total_seconds())
    took_s = (stop - start).total_seconds()
    x = round(before_s / whole_s * WIDTH, 1)
    # A bar of less than three thousandths could not be seen.
    width = round(max(3.0, took_s / whole_s * WIDTH), 1)
    bar.x = min(x, WIDTH - 3)
    bar.width = min(width, WIDTH - bar.x)


def find_model_calls(run: Run) -> list[Bar]:
    rows = ModelCall.objects.filter(run=run).defer("request", "response").order_by("id")
    bars = []
    for call in rows.annotate(thoughts=KT("response__reasoning"))[:LIMIT]:
        took = timedelta(milliseconds=call.wall_ms)
        bar = Bar(
            id=f"model-{call.pk}",
            kind="model",
            name=f"{call.provider} {call.model_name}".strip(),
            state="failed" if call.error else "ok",
            started_at=call.started_at,
            finished_at=call.started_at + took,
            row=call,
            css="model",
        )
        bars.append(bar)
    return bars


def find_tool_calls(run: Run, steps: list[Bar]) -> list[Bar]:
    """Each below the step that made it; calls of a function below nothing are one level in as well."""
    depths = {step.row.call_id: step.depth + 1 for step in steps if step.row.call_id}
    calls, _more = read_page(ToolCallRecord.objects.filter(run=run).order_by("id"), LIMIT)
    approvals = {approval.call_id: approval for approval in Approval.objects.filter(run=run)[:LIMIT]}
    bars = []
    for call in calls:
        call.asked = approvals.get(call.pk)  # type: ignore[attr-defined]
        state = call.outcome or ("waiting" if call.waiting_for else "running")
        bar = Bar(
            id=f"call-{call.pk}",
            kind="tool",
            name=call.name,
            state=state,
            started_at=call.started_at or call.created_at,
            finished_at=call.finished_at,
            row=call,
            depth=depths.get(call.pk, 1 if call.parent_call_id else 0),
            css="wait" if call.waiting_for else state,
        )
        bars.append(bar)
    return bars


def find_device_calls(run: Run, calls: list[Bar]) -> list[Bar]:
    """Calls sent to a device; each has the id of its tool call."""
    depths = {call.row.pk: call.depth + 1 for call in calls}
    rows, _more = read_page(DeviceCall.objects.filter(run_id=run.pk).select_related("device").order_by("id"), LIMIT)
    bars = []
    for row in rows:
        bar = Bar(
            id=f"device-{row.pk}",
            kind="device",
            name=row.device.name if row.device else _("any device"),
            state=row.state,
            started_at=row.created_at,
            finished_at=row.finished_at,
            row=row,
            depth=depths.get(row.pk, 1),
            css=DEVICE_STATES.get(str(row.state), "wait"),
        )
        bars.append(bar)
    return bars


def find_children(run: Run, steps: list[Bar]) -> list[Bar]:
    depths = {step.row.child_id: step.depth + 1 for step in steps if step.row.child_id}
    children, _more = read_page(run.children.select_related("agent", "chain_version__chain").order_by("id"), LIMIT)
    bars = []
    for child in children:
        bar = Bar(
            id=f"child-{child.pk}",
            kind="child",
            name=name_target(child),
            state=child.status,
            started_at=child.created_at,
            finished_at=child.finished_at,
            row=child,
            depth=depths.get(child.pk, 0),
        )
        bars.append(bar)
    return bars


def find_steps(run: Run) -> list[Bar]:
    """The steps of a chain. Items of a step with `for_each` are one level in."""
    if run.chain_version_id is None:
        return []
    steps, _more = read_page(StepRun.objects.filter(run=run).order_by("id"), LIMIT)
    bars = []
    for step in steps:
        is_item = step.item >= 0
        bar = Bar(
            id=f"step-{step.pk}",
            kind="step",
            name=f"{step.key}[{step.item}]" if is_item else step.key,
            state=step.status,
            started_at=step.started_at,
            finished_at=step.finished_at,
            row=step,
            depth=int(is_item),
        )
        bars.append(bar)
    return bars


def name_target(run: Run) -> str:
    """What people call the agent or chain that a run is of."""
    if run.agent:
        return run.agent.label
    if run.chain_version:
        return run.chain_version.chain.label
    return _("not routed yet")
