"""The spans of runs that have ended: one trace for each root run, with its child runs below it.

They are derived from the rows, so a run costs nothing more, and ids follow from the rows' ids: a
trace that is sent twice is the same trace.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q

from agents.models import Provider
from plumbing import tracing
from runs.models import ModelCall, Run, StepRun, ToolCallRecord

from . import contents, names

JSON = Any
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Rows of one kind in one batch of traces.
MOST = 20_000


@dataclass(frozen=True, slots=True)
class Span:
    """`start` and `end` in nanoseconds since 1970. `error` is a code, empty if it went well."""

    trace: int
    id: int
    parent: int | None
    name: str
    start: int
    end: int
    is_client: bool = False
    error: str = ""
    attributes: dict[str, JSON] = field(default_factory=dict)


def build_spans(roots: Collection[Run], *, with_contents: bool = False) -> list[Span]:
    """The spans of these root runs. Four queries, however many runs there are."""
    traced: dict[Any, tuple[int, int | None]] = {}
    for run in roots:
        trace = choose_trace(run)
        if trace is not None:
            traced[run.pk] = trace
    is_in_tree = Q(pk__in=traced) | Q(root__in=traced)
    rows = Run.objects.filter(is_in_tree).select_related(*JOINS).order_by("pk")[:MOST]
    runs = {run.pk: run for run in rows}
    steps = list(StepRun.objects.filter(run__in=runs).order_by("id")[:MOST])
    return list(Tree(runs, traced, steps, with_contents).spans())


JOINS = ("agent", "chain_version__chain", "parent_call")


def choose_trace(run: Run) -> tuple[int, int | None] | None:
    """(trace id, span of the caller); None if the caller has decided that its trace is not recorded."""
    caller = tracing.parse_trace_parent(run.trace_parent)
    if caller is None:
        return run.pk.int, None
    trace, span, is_recorded = caller
    if not is_recorded:
        return None
    return trace, span


def span_id(id: UUID) -> int:
    """The last 64 bits, which are random."""
    return id.int & (2**64 - 1)


def nanoseconds(moment: datetime) -> int:
    # In whole numbers: a float would lose the last digits.
    microseconds = (moment - EPOCH) // timedelta(microseconds=1)
    return microseconds * 1000


class Tree:
    """The runs of some traces with their parts."""

    def __init__(
        self, runs: dict[Any, Run], traced: dict[Any, tuple[int, int | None]], steps: list[StepRun], with_contents: bool
    ) -> None:
        self.runs = runs
        self.traced = traced
        self.steps = steps
        self.with_contents = with_contents
        # The step that each child run, or each call, belongs to.
        self.above: dict[Any, Any] = {}
        # The row of a step, to which the rows of its items belong.
        self.step_of: dict[tuple[Any, str], Any] = {}
        for step in steps:
            part = step.child_id or step.call_id
            if part:
                self.above[part] = step.pk
            if step.item < 0:
                self.step_of[step.run_id, step.key] = step.pk
        self.kinds = dict(Provider.objects.values_list("name", "kind"))

    def spans(self) -> Iterator[Span]:
        for run in self.runs.values():
            yield self.of_run(run)
        for step in self.steps:
            yield self.of_step(step)
        model_calls = ModelCall.objects.filter(run__in=self.runs).order_by("id")
        tool_calls = ToolCallRecord.objects.filter(run__in=self.runs).order_by("id")
        if not self.with_contents:
            model_calls = model_calls.defer("request", "response")
            tool_calls = tool_calls.defer("result", "printed")
        # Requests are large: not all of them are held at once.
        for model_call in model_calls[:MOST].iterator(chunk_size=500):
            yield self.of_model_call(model_call)
        for tool_call in tool_calls[:MOST]:
            yield self.of_tool_call(tool_call)

    def trace(self, run: Run) -> int:
        return self.traced[run.root_pk][0]

    def end(self, run: Run, at: datetime | None) -> int:
        """A part without an end was cut off together with its run, or with its root."""
        last = at or run.finished_at or self.runs[run.root_pk].finished_at
        return nanoseconds(last or run.created_at)

    def of_run(self, run: Run) -> Span:
        if run.chain_version:
            name, attributes = self.describe_chain(run)
        else:
            name, attributes = self.describe_agent(run)
        parent = run.parent_call_id or self.above.get(run.pk) or run.parent_id
        start = run.started_at or run.created_at
        error = ""
        if run.status not in (Run.Status.SUCCEEDED, Run.Status.PARTIAL):
            error = read_code(run.error) or run.status
        attributes |= {
            names.CONVERSATION: str(run.session_id) if run.session_id else None,
            names.RUN_INPUT_TOKENS: run.input_tokens,
            names.RUN_OUTPUT_TOKENS: run.output_tokens,
            names.USER: str(run.principal_id),
            "muster.run": str(run.pk),
            "muster.status": run.status,
            "muster.trigger": run.trigger,
            "muster.cost": float(run.cost),
        }
        return self.span(run, run.pk, parent, name, start, run.finished_at, attributes, error=error)

    def describe_chain(self, run: Run) -> tuple[str, dict[str, JSON]]:
        """The name of the span, and the attributes of a chain."""
        assert run.chain_version is not None
        chain = run.chain_version.chain
        attributes: dict[str, JSON] = {
            names.OPERATION: names.INVOKE_WORKFLOW,
            names.WORKFLOW_NAME: chain.name,
            names.SPAN_KIND: "CHAIN",
        }
        return f"{names.INVOKE_WORKFLOW} {chain.name}".strip(), attributes

    def describe_agent(self, run: Run) -> tuple[str, dict[str, JSON]]:
        """The same of an agent. A run whose agent is not chosen yet has none."""
        attributes: dict[str, JSON] = {names.OPERATION: names.INVOKE_AGENT}
        if run.agent is None:
            return names.INVOKE_AGENT, attributes
        attributes[names.AGENT_ID] = str(run.agent.pk)
        attributes[names.AGENT_NAME] = run.agent.name
        return f"{names.INVOKE_AGENT} {run.agent.name}".strip(), attributes

    def of_step(self, step: StepRun) -> Span:
        run = self.runs[step.run_id]
        name = f"step {step.key}"
        parent = run.pk
        if step.item >= 0:
            name = f"step {step.key}[{step.item}]"
            parent = self.step_of.get((step.run_id, step.key)) or run.pk
        error = ""
        if step.status == StepRun.Status.FAILED:
            error = (step.error or {}).get("code", step.status)
        # A step that was skipped never started.
        start = step.started_at or step.finished_at or run.started_at or run.created_at
        attributes = {"muster.step": step.key, "muster.status": step.status, names.SPAN_KIND: "CHAIN"}
        return self.span(run, step.pk, parent, name, start, step.finished_at, attributes, error=error)

    def of_model_call(self, call: ModelCall) -> Span:
        run = self.runs[call.run_id]
        kind = self.kinds.get(call.provider, call.provider)
        attributes = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: names.PROVIDERS.get(kind, kind),
            names.REQUEST_MODEL: call.model_name,
            names.RESPONSE_MODEL: None if call.error else call.model_name,
            names.INPUT_TOKENS: call.input_tokens,
            names.OUTPUT_TOKENS: call.output_tokens,
            names.CONVERSATION: str(run.session_id) if run.session_id else None,
            "muster.attempts": call.attempts,
            "muster.first_token_ms": call.first_token_ms,
            "muster.cost": float(call.cost),
        }
        if self.with_contents:
            attributes[names.INPUT_MESSAGES] = contents.input_messages(call.request)
            attributes[names.OUTPUT_MESSAGES] = contents.output_messages(call.response)
        name = f"{names.CHAT} {call.model_name}".strip()
        end = call.started_at + timedelta(milliseconds=call.wall_ms)
        error = read_code(call.error)
        return self.span(run, call.pk, run.pk, name, call.started_at, end, attributes, error=error, is_client=True)

    def of_tool_call(self, call: ToolCallRecord) -> Span:
        run = self.runs[call.run_id]
        tool_type = "extension" if call.kind in names.EXTENSIONS else "function"
        attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: call.name,
            names.TOOL_CALL: call.model_call_id or str(call.pk),
            names.TOOL_TYPE: tool_type,
            "muster.kind": call.kind,
            "muster.effect": call.effect,
            "muster.outcome": call.outcome,
        }
        if self.with_contents:
            attributes[names.TOOL_ARGUMENTS] = render_trace_content(call.arguments)
            attributes[names.TOOL_RESULT] = render_trace_content(call.result)
        name = f"{names.EXECUTE_TOOL} {call.name}"
        parent = call.parent_call_id or self.above.get(call.pk) or run.pk
        start = call.started_at or call.created_at
        error = ""
        if call.outcome != "ok":
            error = read_code(call.error) or call.outcome or "cut_off"
        return self.span(run, call.pk, parent, name, start, call.finished_at, attributes, error=error)

    def span(
        self, run: Run, id: UUID, parent: UUID | None, name: str, start: datetime, end: datetime | None,
        attributes: dict[str, JSON], *, error: str = "", is_client: bool = False,
    ) -> Span:  # fmt: skip
        above = span_id(parent) if parent else self.traced[run.pk][1]
        values = {key: value for key, value in attributes.items() if value is not None and value != ""}
        if error:
            values[names.ERROR] = error
        start_ns = nanoseconds(start)
        # Times come from several clocks: no span may end before it starts.
        end_ns = max(start_ns, self.end(run, end))
        return Span(self.trace(run), span_id(id), above, name, start_ns, end_ns, is_client, error, values)


def render_trace_content(value: JSON) -> str | None:
    if value is None:
        return None
    return contents.cut_trace_text(contents.serialize_trace_value(value))


def read_code(error: dict[str, JSON] | None) -> str:
    return (error or {}).get("code", "")
