"""The hooks of a run: stored functions that allow, deny or replace what they are shown, in the sandbox.

Everything that is not a verdict denies: an error, the end of the time limit, an answer of another shape.
"""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any
from uuid import uuid4

from django.db.models import IntegerField

from agents import schema
from agents.models import Hook
from agents.models.hook import ARGUMENT
from agents.schema import hash_json
from agents.tools import OutcomeUnknown, ToolCall, ToolContext, ToolError, ToolResult, ToolSpec
from functions.tools import find_called_version
from plumbing.database import DATABASE_GONE
from plumbing.statements import Select
from registry import toolsets
from runs.models import Run, ToolCallRecord
from runs.rules import policy, verdicts
from runs.rules.verdicts import ALLOW, DENY, REPLACE, Verdict

from . import origins

log = logging.getLogger(__name__)
COLUMNS = ("id", "place", "agent_id", "team_id", "tools", "timeout_s", "pinned_version", "position", "tool_id",
           "tool__name", "tool__enabled", "tool__source", "tool__definition_hash")  # fmt: skip
OF_AGENT = Select(
    lambda at: Hook.objects.of_work(at.agent, shared=at.agent).order_by().values_list(*COLUMNS), agent=IntegerField()
)
SCOPES = ("site", "team", "agent")  # the order in which they are asked


@dataclass(frozen=True, slots=True)
class Row:
    """One hook and its function as they are now."""

    id: int
    place: str
    scope: str
    tools: tuple[str, ...]
    timeout_s: float
    position: int
    is_enabled: bool
    function: ToolSpec

    @classmethod
    def of(cls, values: tuple[Any, ...]) -> "Row":
        (id, place, agent, team, tools, timeout_s, pinned, position, tool, name, enabled, source, hash) = values
        function = ToolSpec(
            id=tool,
            name=name,
            kind="function",
            description="",
            input_schema={},
            output_schema=None,
            effect="read",
            source=source,
            definition_hash=hash,
            deadline_s=timeout_s,
            pinned_version=pinned,
        )
        scope = "site"
        if agent:
            scope = "agent"
        elif team:
            scope = "team"
        return cls(id, place, scope, tuple(tools), timeout_s, position, enabled, function)

    def covers(self, tool: str) -> bool:
        if not self.tools:
            return True
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)


@dataclass(slots=True)
class Outcome:
    """What the hooks of one place decided together; `notes` has one line for each that was asked."""

    value: Any
    kind: str = ALLOW
    reason: str = ""
    notes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [("hook.applied", note) for note in self.notes if note["verdict"] != ALLOW]


class Hooks:
    """The hooks of a run in progress; empty for most runs."""

    def __init__(self, run: Run, rows: Iterable[Row] = (), *, agent: str = "", is_cancelled: Any = None) -> None:
        self.run = run
        self.rows = sorted(rows, key=lambda row: (SCOPES.index(row.scope), row.position, row.id))
        self.agent = agent
        self.is_cancelled = is_cancelled

    def at(self, place: str, tool: str = "") -> list[Row]:
        rows = []
        for row in self.rows:
            if row.place == place and row.covers(tool):
                rows.append(row)
        return rows

    def ask(self, place: str, value: Any, *, name: str, tool: str = "", **event: Any) -> Outcome:
        """Ask each hook in order. `name` is the field of the event that holds the value; a hook sees what the
        hooks before it have made of the value.
        """
        outcome = Outcome(value)
        about = {"place": place, "agent": self.agent, "user": self.run.principal_id}
        for row in self.at(place, tool):
            verdict = self.verdict(row, {**about, name: outcome.value, **event})
            outcome.notes.append(self.note(row, verdict, outcome.value, tool))
            if verdict.kind == DENY:
                outcome.kind = DENY
                outcome.reason = verdict.reason or f"the hook “{row.function.name}” denied it"
                return outcome
            if verdict.kind == REPLACE and verdict.value != outcome.value:
                outcome.kind = REPLACE
                outcome.value = verdict.value
        return outcome

    def verdict(self, row: Row, event: dict[str, Any]) -> Verdict:
        """This hook's verdict; deny, with the reason, if it does not give one."""
        if not row.is_enabled:
            return deny_failed_hook(row, "its function is switched off")
        try:
            result = self.call(row, event)
            if not result.ok:
                error = result.error or {}
                return deny_failed_hook(row, str(error.get("message") or error.get("code")))
            return verdicts.parse_verdict(result.value, row.place)
        except DATABASE_GONE:
            raise
        except (ToolError, ValueError) as error:
            return deny_failed_hook(row, str(error))
        except Exception:  # whatever goes wrong, what it should have checked does not pass
            log.exception("The hook %s failed unexpectedly", row.id)
            return deny_failed_hook(row, "an internal error; see the server's log")

    def call(self, row: Row, event: dict[str, Any]) -> ToolResult:
        """One call in the sandbox. No execution is stored, as it would keep what a hook is there to remove."""
        spec = find_called_version(row.function).spec
        if row.scope != "site" and (spec.allowed_hosts or spec.secrets):
            raise ValueError("only hooks of the site may use web hosts or secrets")
        more = {"is_cancelled": self.is_cancelled} if self.is_cancelled else {}
        context = ToolContext(
            user_id=self.run.principal_id,
            run_id=str(self.run.pk),
            agent=self.agent,
            deadline=self.run.deadline,
            is_for_visitor=self.run.embed is not None,
            **more,
        )
        call = ToolCall(str(uuid4()), row.function.name, {ARGUMENT: event})
        result = toolsets.call_tool(row.function, call, context)
        code = (result.error or {}).get("code")
        if code == "violation" and result.keep is not None:
            result.keep()  # reports and withdraws the function
        return result

    def note(self, row: Row, verdict: Verdict, before: Any, tool: str) -> dict[str, Any]:
        """What is recorded: never the value itself, only its hash and size."""
        note = {
            "hook": row.id,
            "place": row.place,
            "scope": row.scope,
            "function": row.function.name,
            "verdict": verdict.kind,
            "reason": verdict.reason,
        }
        if tool:
            note["tool"] = tool
        if verdict.kind == REPLACE:
            note["sha256"] = hash_json(before)
            note["size"] = len(json.dumps(before, default=str))
        return note


def deny_failed_hook(row: Row, why: str) -> Verdict:
    reason = f"the hook “{row.function.name}” could not decide: {why}"
    return Verdict(DENY, reason=reason[: verdicts.REASON_LIMIT])


def load_hooks(
    run: Run, *, agent: str = "", is_cancelled: Callable[[], bool] | None = None, is_new: bool = False
) -> Hooks:
    """The hooks of this run. Costs no statement where the claim of the run has seen that there are none; `is_new`:
    its agent was chosen after the claim.
    """
    has_none = run.seen is not None and not run.seen.is_hooked
    if has_none and not is_new:
        return Hooks(run)
    rows = [Row.of(values) for values in OF_AGENT.all(agent=run.agent_id or 0)]
    return Hooks(run, rows, agent=agent, is_cancelled=is_cancelled)


def describe_called_tool(tool: ToolSpec) -> dict[str, Any]:
    """What a hook is shown of the tool."""
    return {"name": tool.name, "kind": tool.kind, "effect": tool.effect}


# -- tool calls -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """A requested call after its hooks, in the shape of a model's tool call."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str
    outcome: Outcome
    asked: dict[str, Any]  # the arguments that were requested


def before(hooks: Hooks, tool: ToolSpec, arguments: dict[str, Any]) -> Outcome:
    called = describe_called_tool(tool)
    return hooks.ask("before_tool", arguments, name="arguments", tool=tool.name, called=called)


def after(hooks: Hooks, tool: ToolSpec, arguments: dict[str, Any], result: ToolResult) -> tuple[ToolResult, Outcome]:
    """The result after the hooks. If they replace or withhold its value, its printed text is removed too."""
    called = describe_called_tool(tool)
    error = result.error or {}
    value = result.value if result.ok else error.get("message", "")
    outcome = hooks.ask(
        "after_tool", value, name="result", tool=tool.name, called=called, arguments=arguments, ok=result.ok
    )
    if outcome.kind == DENY:
        is_unknown = error.get("code") == OutcomeUnknown.code
        code = OutcomeUnknown.code if is_unknown else "result_withheld"
        message = f"the call was made, and its result is withheld: {outcome.reason}"
        withheld = {"code": code, "message": message}
        result = replace(result, ok=False, value=None, error=withheld, printed="")
    elif outcome.kind == REPLACE and result.ok:
        result = replace(result, value=outcome.value, printed="")
    elif outcome.kind == REPLACE:
        replaced = {"code": error.get("code", "tool_failed"), "message": str(outcome.value)}
        result = replace(result, error=replaced, printed="")
    return result, outcome


def check_calls_by_hooks(executor: Any, requested: Iterable[Any]) -> list[Any]:
    """The model's calls after their hooks, before they are recorded and judged. A call that policy refuses anyway is
    not shown to a hook.
    """
    calls = list(requested)
    if not executor.hooks.rows:
        return calls
    return [check_call_by_hooks(executor, call) for call in calls]


def check_call_by_hooks(executor: Any, call: Any) -> Any:
    tool = executor.tools.get(call.name)
    if tool is None or call.problem:
        return call
    decision = executor.judge(tool, call.name)
    if decision.mode == policy.DENY:
        return call
    outcome = before(executor.hooks, tool, call.arguments)
    return Checked(call.id, call.name, outcome.value, "", outcome, call.arguments)


def collect_hook_events(requested: Iterable[Any]) -> list[tuple[str, dict[str, Any]]]:
    events = []
    for call in requested:
        if isinstance(call, Checked):
            events += call.outcome.events
    return events


def record_hook_decision(record: ToolCallRecord, requested: Any) -> str:
    """Write the decisions of the hooks into the call's details; returns the reason of a denial, or ""."""
    if not isinstance(requested, Checked):
        return ""
    write_hook_notes(record, requested.outcome, requested.asked)
    if requested.outcome.kind == DENY:
        return requested.outcome.reason
    return ""


def write_hook_notes(record: ToolCallRecord, outcome: Outcome, arguments: dict[str, Any]) -> None:
    """`hooks` says that the arguments were checked, `asked` keeps those of the model if a hook replaced them."""
    details = {**record.details, "hooks": outcome.notes}
    if outcome.kind == REPLACE:
        details["asked"] = arguments
    record.details = details


def around(executor: Any, tool: ToolSpec, record: ToolCallRecord) -> ToolResult:
    """Make a call with its hooks. Calls of functions, steps of chains and arguments that a person edited are checked
    here; those of a model were checked before they were judged.
    """
    if "hooks" not in record.details:
        refusal = check_now(executor, tool, record)
        if refusal:
            return ToolResult.failed("denied_by_hook", refusal)
    result = executor.unhooked(tool, record)
    result, outcome = after(executor.hooks, tool, record.arguments, result)
    if outcome.notes:
        notes = [*record.details["hooks"], *outcome.notes]
        result = replace(result, details={**result.details, "hooks": notes})
    if outcome.events:
        executor.tell(*outcome.events)
    return result


def check_now(executor: Any, tool: ToolSpec, record: ToolCallRecord) -> str:
    """Why this call may not be made; empty if it may. Replaced arguments are judged again, and only what is allowed
    without asking is made.
    """
    arguments = record.arguments
    outcome = before(executor.hooks, tool, arguments)
    write_hook_notes(record, outcome, arguments)
    record.arguments = outcome.value
    ToolCallRecord.objects.filter(pk=record.pk).update(arguments=record.arguments, details=record.details)
    if outcome.events:
        executor.tell(*outcome.events)
    if outcome.kind == DENY:
        return outcome.reason
    if outcome.kind == REPLACE:
        return judged_again(executor, tool, record)
    return ""


def judged_again(executor: Any, tool: ToolSpec, record: ToolCallRecord) -> str:
    problems = schema.validate(tool.input_schema, record.arguments)
    if problems:
        return f"a hook replaced the arguments by invalid ones: {problems[0]['message']}"
    findings = executor.findings(tool, record.arguments)
    is_callback = record.parent_call_id is not None
    decision = executor.judge(tool, record.name, findings=findings, is_callback=is_callback)
    if executor.run.has_untrusted and origins.is_derived(findings):
        record.untrusted = True
    if decision.mode == policy.ALLOW:
        return ""
    return f"with the arguments of a hook: {decision.reason}"
