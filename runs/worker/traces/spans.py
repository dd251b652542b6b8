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
MOST = 20_000  # rows of one kind in one batch of traces


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
    traced = {run.pk: trace for run in roots if (trace := choose_trace(run)) is not None}
    family = Q(pk__in=traced) | Q(root__in=traced)
    runs = {run.pk: run for run in Run.objects.filter(family).select_related(*JOINS).order_by("pk")[:MOST]}
    steps = list(StepRun.objects.filter(run__in=runs).order_by("id")[:MOST])
    return list(Tree(runs, traced, steps, with_contents).spans())


JOINS = ("agent", "chain_version__chain", "parent_call")


def choose_trace(run: Run) -> tuple[int, int | None] | None:
    """(trace id, span of the caller); None if the caller has decided that its trace is not recorded."""
    caller = tracing.parse_trace_parent(run.trace_parent)
    if caller is None:
        return run.pk.int, None
    trace, span, is_recorded = caller
    return (trace, span) if is_recorded else None


def span_id(id: UUID) -> int:
    """The last 64 bits, which are random."""
    return id.int & (2**64 - 1)


def nanoseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


class Tree:
    """The runs of some traces with their parts."""

    def __init__(
        self, runs: dict[Any, Run], traced: dict[Any, tuple[int, int | None]], steps: list[StepRun], with_contents: bool
    ) -> None:
        self.runs = runs
        self.traced = traced
        self.steps = steps
        self.with_contents = with_contents
        self.above = {step.child_id or step.call_id: step.pk for step in steps if step.child_id or step.call_id}
        self.step_of = {(step.run_id, step.key): step.pk for step in steps if step.item < 0}
        self.kinds = dict(Provider.objects.values_list("name", "kind"))

    def spans(self) -> Iterator[Span]:
        for run in self.runs.values():
            yield self.of_run(run)
        for step in self.steps:
            yield self.of_step(step)
        model_calls = ModelCall.objects.filter(run__in=self.runs).order_by("id")
        kept = model_calls if self.with_contents else model_calls.defer("request", "response")
        for model_call in kept[:MOST].iterator(chunk_size=500):
            yield self.of_model_call(model_call)
        tool_calls = ToolCallRecord.objects.filter(run__in=self.runs).order_by("id")
        for call in (tool_calls if self.with_contents else tool_calls.defer("result", "printed"))[:MOST]:
            yield self.of_tool_call(call)

    def trace(self, run: Run) -> int:
        return self.traced[run.root_pk][0]

    def end(self, run: Run, at: datetime | None) -> int:
        """A part without an end was cut off together with its run, or with its root."""
        last = at or run.finished_at or self.runs[run.root_pk].finished_at
        return nanoseconds(last or run.created_at)

    def of_run(self, run: Run) -> Span:
        agent, chain = run.agent, run.chain_version.chain if run.chain_version else None
        operation = names.INVOKE_WORKFLOW if chain else names.INVOKE_AGENT
        name = chain.name if chain else agent.name if agent else ""
        parent = run.parent_call_id or self.above.get(run.pk) or run.parent_id
        attributes = {
            names.OPERATION: operation,
            names.AGENT_ID: str(agent.pk) if agent and not chain else None,
            names.AGENT_NAME: agent.name if agent and not chain else None,
            names.WORKFLOW_NAME: chain.name if chain else None,
            names.CONVERSATION: str(run.session_id) if run.session_id else None,
            names.SPAN_KIND: "CHAIN" if chain else None,
            names.RUN_INPUT_TOKENS: run.input_tokens,
            names.RUN_OUTPUT_TOKENS: run.output_tokens,
            names.USER: str(run.principal_id),
            "muster.run": str(run.pk),
            "muster.status": run.status,
            "muster.trigger": run.trigger,
            "muster.cost": float(run.cost),
        }
        has_failed = run.status not in (Run.Status.SUCCEEDED, Run.Status.PARTIAL)
        return self.span(
            run, run.pk, parent, f"{operation} {name}".strip(), run.started_at or run.created_at, run.finished_at,
            attributes, error=(run.error or {}).get("code") or run.status if has_failed else "",
        )  # fmt: skip

    def of_step(self, step: StepRun) -> Span:
        run = self.runs[step.run_id]
        above = self.step_of.get((step.run_id, step.key)) if step.item >= 0 else None
        name = f"step {step.key}[{step.item}]" if step.item >= 0 else f"step {step.key}"
        error = (step.error or {}).get("code", step.status) if step.status == StepRun.Status.FAILED else ""
        start = step.started_at or step.finished_at or run.started_at or run.created_at
        attributes = {"muster.step": step.key, "muster.status": step.status, names.SPAN_KIND: "CHAIN"}
        return self.span(run, step.pk, above or run.pk, name, start, step.finished_at, attributes, error=error)

    def of_model_call(self, call: ModelCall) -> Span:
        run, error = self.runs[call.run_id], call.error or {}
        kind = self.kinds.get(call.provider, call.provider)
        attributes = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: names.PROVIDERS.get(kind, kind),
            names.REQUEST_MODEL: call.model_name,
            names.RESPONSE_MODEL: call.model_name if not error else None,
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
        end = call.started_at + timedelta(milliseconds=call.wall_ms)
        return self.span(
            run, call.pk, run.pk, f"{names.CHAT} {call.model_name}".strip(), call.started_at, end, attributes,
            error=error.get("code", ""), is_client=True,
        )  # fmt: skip

    def of_tool_call(self, call: ToolCallRecord) -> Span:
        run = self.runs[call.run_id]
        attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: call.name,
            names.TOOL_CALL: call.model_call_id or str(call.pk),
            names.TOOL_TYPE: "extension" if call.kind in names.EXTENSIONS else "function",
            "muster.kind": call.kind,
            "muster.effect": call.effect,
            "muster.outcome": call.outcome,
        }
        if self.with_contents:
            attributes[names.TOOL_ARGUMENTS] = render_trace_content(call.arguments)
            attributes[names.TOOL_RESULT] = render_trace_content(call.result)
        error = "" if call.outcome == "ok" else (call.error or {}).get("code") or call.outcome or "cut_off"
        parent = call.parent_call_id or self.above.get(call.pk) or run.pk
        start = call.started_at or call.created_at
        return self.span(
            run, call.pk, parent, f"{names.EXECUTE_TOOL} {call.name}", start, call.finished_at, attributes, error=error
        )

    def span(
        self, run: Run, id: UUID, parent: UUID | None, name: str, start: datetime, end: datetime | None,
        attributes: dict[str, JSON], *, error: str = "", is_client: bool = False,
    ) -> Span:  # fmt: skip
        above = span_id(parent) if parent else self.traced[run.pk][1]
        values = {key: value for key, value in attributes.items() if value is not None and value != ""}
        if error:
            values[names.ERROR] = error
        begun = nanoseconds(start)
        return Span(
            self.trace(run), span_id(id), above, name, begun, max(begun, self.end(run, end)), is_client, error, values
        )


def render_trace_content(value: JSON) -> str | None:
    return None if value is None else contents.cut_trace_text(contents.serialize_trace_value(value))
