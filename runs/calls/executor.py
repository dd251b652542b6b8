"""Tool calls: recorded before they are made, checked by policy, made in parallel, never repeated
silently.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from uuid_utils.compat import uuid7

from agents import schema
from agents.exceptions import NewerFormat
from agents.tools import CallPending, OutcomeUnknown, ToolCall, ToolContext, ToolError, ToolFailed, ToolResult, ToolSpec
from plumbing import clock, waits
from plumbing.database import DATABASE_GONE
from plumbing.idle_thread_pool import RestingThreads
from plumbing.statements import insert_rows, update_each
from plumbing.threads import release_connection
from registry import toolsets
from runs.events import record as events
from runs.exceptions import LeaseLost
from runs.intake import authors, children
from runs.models import Approval, Run, ToolCallRecord
from runs.queue.leases import Lease
from runs.rules import limits, policy
from runs.rules.provenance import Call, Finding, Origins

from . import (
    artifacts,
    bindings,
    call_records,
    grants,
    hooks,
    inputs,
    offers,
    origins,
    skills,
)
from .call_records import (
    approval_data,
    argument_problems,
    called_data,
    close_call,
    denied_data,
    failure,
    find_run_device,
    finished_data,
    may_start,
    refusal_of_arguments,
    start_attempt,
)
from .offers import COMPLETE
from .values import RunValues

log = logging.getLogger(__name__)
Outcome = ToolCallRecord.Outcome
POOL = RestingThreads(64, "calls")
MAX_CALLBACKS = 200  # of one function call
# How a function ends that did not come to its end by itself.
CUT_SHORT = frozenset(["timeout", "out_of_memory", "function_crashed", "violation", "cancelled"])


class ToolCallExecutor:
    """Checks and makes a run's tool calls. One per run in progress; its grants are read again on
    each turn.
    """

    def __init__(
        self, run: Run, lease: Lease, tools: dict[str, ToolSpec], *, agent: str = "", hooked: hooks.Hooks | None = None
    ) -> None:
        self.run = run
        self.lease = lease
        self.tools = offers.with_search(skills.with_reader(tools), run.policy.get("allowed"))
        if run.policy.get("step"):
            self.tools = {**self.tools, COMPLETE.name: COMPLETE}
        self.agent = agent
        self.hooks = hooked or hooks.Hooks(run)
        self.grants: dict[int, grants.Grant] = {}
        self.unshared: set[int] = set()  # tools that the run's person may use no longer
        self.unasked: frozenset[str] = frozenset()  # names of tools whose first call the run's person has to approve
        self.closed: frozenset[str] = frozenset()  # names of tools that the visitor it serves may not use
        self.called_back: set[UUID] = set()  # calls whose function has called tools
        self.wrote: set[UUID] = set()  # those among them that called one which must not be called twice
        self.deadlines: dict[UUID, datetime] = {}  # ids of the calls made here
        self._origins: Origins | None = None

    def read_grants(self) -> None:
        """The current modes: an author's “deny” also applies to runs in progress."""
        self._origins = None
        if not self.tools:
            return
        self.grants = grants.load_run_grants(self.run, self.tools.values())
        above = authors.above(self.run)
        self.unshared = grants.find_unshared_tools(self.grants, self.run, above)
        self.unasked = grants.find_unconsented_tools(self.run, self.tools, above)
        self.closed = grants.find_tools_closed_to_visitors(self.run, self.tools)

    def findings(self, tool: ToolSpec | None, arguments: dict[str, Any]) -> list[Finding] | None:
        """The origin of each argument; None if nothing depends on it."""
        if tool is None or not self.run.has_untrusted:
            return None
        if not origins.matters(tool, self.grants.get(tool.id)):
            return None
        if self._origins is None:
            self._origins = origins.read_origins(self.run, self.tools)
        call = Call(tool.name, arguments, tool.effect, tool.input_schema)
        return self._origins.examine(call)

    def judge(
        self,
        tool: ToolSpec | None,
        name: str,
        *,
        findings: list[Finding] | None = None,
        is_callback: bool = False,
    ) -> policy.Decision:
        if tool is None:
            return policy.Decision(policy.DENY, f"there is no tool “{name}” here")
        if tool.id in self.unshared:
            return policy.Decision(policy.DENY, f"“{name}” is not shared with everybody this run works for")
        if name in self.closed:
            return policy.Decision(policy.DENY, f"“{name}” is not open to visitors")
        grant = self.grants.get(tool.id)
        step = self.run.policy
        return policy.decide_call(
            policy.Rules(
                tool=name,
                grant=grant.mode if grant else None,
                effect=tool.effect,
                is_enabled=grant.is_enabled if grant else True,
                allowed=step.get("allowed"),
                blocked=step.get("blocked", ()),
                ask=step.get("ask", ()),
                has_untrusted=self.run.has_untrusted,
                allow_after_untrusted=grant.allow_after_untrusted if grant else False,
                findings=findings,
                is_delegation=origins.is_delegation(tool),
                ask_effects=settings.ASK_EFFECTS,
                is_callback=is_callback,
                needs_consent=name in self.unasked,
            )
        )

    def offered(self) -> list[str]:
        """The tools offered to the model: those that would not be refused anyway."""
        names = []
        for name, tool in self.tools.items():
            if skills.is_shown_together(tool):
                continue
            if self.judge(tool, name).mode != policy.DENY:
                names.append(name)
        return names

    # -- a turn's calls -------------------------------------------------------------------------------------------

    def record(self, requested: Iterable[Any], turn: int) -> tuple[list[ToolCallRecord], list[tuple[str, dict]]]:
        """Record the model's calls, each with its policy decision, and their events."""
        self._origins = None
        requested = list(requested)
        records = [self.judged_record(call, turn) for call in requested]
        insert_rows(*records)
        approvals = [self.approval_for(record) for record in records if record.waiting_for == "approval"]
        Approval.objects.bulk_create(approvals)
        entries = hooks.collect_hook_events(requested)
        # By kind, each in the order of the calls: all were called before the first is refused.
        entries += [("tool.called", called_data(record)) for record in records]
        entries += [("tool.denied", denied_data(record)) for record in records if record.outcome == Outcome.DENIED]
        entries += [("tool.finished", finished_data(record)) for record in records if record.outcome == Outcome.FAILED]
        entries += [("approval.requested", approval_data(approval)) for approval in approvals]
        return records, entries

    def judged_record(self, requested: Any, turn: int) -> ToolCallRecord:
        tool = self.tools.get(requested.name)
        record = ToolCallRecord(
            id=uuid7(),
            run=self.run,
            turn=turn,
            model_call_id=requested.id[:128],
            name=requested.name[:64],
            kind=tool.kind if tool else "",
            effect=tool.effect if tool else "",
            arguments=requested.arguments,
        )
        findings = self.findings(tool, requested.arguments)
        subject = skills.find_requested_skill(self.tools, tool, requested.arguments)
        subject_name = subject.name if subject else requested.name
        decision = self.judge(subject, subject_name, findings=findings)
        record.untrusted = self.run.has_untrusted and origins.is_derived(findings)
        refusal = hooks.record_hook_decision(record, requested)
        if decision.mode == policy.DENY:
            close_call(record, Outcome.DENIED, error={"code": "denied", "message": decision.reason})
        elif refusal:
            close_call(record, Outcome.DENIED, error={"code": "denied_by_hook", "message": refusal})
        elif problems := argument_problems(tool, requested):
            close_call(record, Outcome.FAILED, error=refusal_of_arguments(requested, problems))
        elif decision.mode == policy.ASK:
            record.waiting_for = "approval"
            record.details["reason"] = decision.reason
            record.details["findings"] = [finding.as_json() for finding in decision.findings]
        else:
            start_attempt(record)
        return record

    def approval_for(self, record: ToolCallRecord) -> Approval:
        is_first = record.name in self.unasked
        expires_at = clock.near() + timedelta(seconds=settings.APPROVAL_S)
        default = settings.APPROVAL_DEFAULT
        # What an untrusted text may have asked for, or somebody else's agent, is never approved by silence.
        if is_first or self.run.has_untrusted:
            default = Approval.Default.DENY
        who_decides: dict[str, Any] = {}
        if not is_first:
            who_decides = self.deciders(record)
        deciding_tool = skills.find_deciding_tool(self, record)
        return Approval(
            run=self.run,
            call=record,
            tool=record.name,
            reason=record.details.get("reason", "")[:200],
            effect=record.effect,
            findings=record.details.pop("findings", []),
            definition=bindings.of_tool(deciding_tool),
            arguments=record.arguments,
            expires_at=expires_at,
            default=default,
            **who_decides,
        )

    def deciders(self, record: ToolCallRecord) -> dict[str, Any]:
        """Who decides by the grant, as columns of the approval; {}: the run's person."""
        deciding_tool = skills.find_deciding_tool(self, record)
        return grants.choose_deciders(self.run, self.grants.get(deciding_tool.id))

    def perform(self, records: list[ToolCallRecord]) -> None:
        """Make every call that can be made now, in parallel. Waiting ones keep their `waiting_for`."""
        startable = [record for record in records if may_start(record)]
        if len(startable) == 1:
            self.make(startable[0])
        elif startable:
            waits.each(self.make_in_thread, startable, POOL)

    def make_in_thread(self, record: ToolCallRecord) -> None:
        try:
            self.make(record)
        finally:
            release_connection()

    def make(self, record: ToolCallRecord) -> None:
        """Make one call and store its result; a pending one is asked again when the run resumes."""
        if self.lease.is_cancelled():
            return
        try:
            result = self.answer(self.tool_for(record), record)
        except CallPending as pending:
            if pending.instead is None or self.lasts_until(pending.until):
                self.note_pending(record, pending)
                return
            result = failure(pending.instead)
        except ToolError as error:
            result = failure(error)
        self.settle(record, result)

    def tool_for(self, record: ToolCallRecord) -> ToolSpec:
        """The tool of a call, in the version that was approved if a person was asked. Raises ToolFailed."""
        tool = self.tools[record.name]
        version = record.details.get("approved_version")
        if version is None:
            return tool
        approved = bindings.at_version(tool, version)
        if approved is None:
            message = f"the approved version of “{record.name}” was deleted or withdrawn"
            raise ToolFailed(message, code="definition_changed")
        return approved

    def answer(self, tool: ToolSpec, record: ToolCallRecord) -> ToolResult:
        """The tool's result as the run's hooks leave it."""
        if self.hooks.rows:
            return hooks.around(self, tool, record)
        return self.unhooked(tool, record)

    def unhooked(self, tool: ToolSpec, record: ToolCallRecord) -> ToolResult:
        """The tool's result; exceptions become typed results, except those that interrupt the run."""
        if tool.name == COMPLETE.name and tool.kind == "builtin":
            return ToolResult(ok=True, value=record.arguments.get("result"))
        if offers.is_search(tool):
            return offers.search_granted_tools(self, record.arguments)
        if skills.is_reader(tool):
            return skills.read_skill(self, record)
        return self.made(tool, record)

    def made(self, tool: ToolSpec, record: ToolCallRecord) -> ToolResult:
        """The result of the tool's code."""
        call = ToolCall(id=str(record.pk), name=record.name, arguments=record.arguments, attempt=record.attempt)
        try:
            result = toolsets.call_tool(tool, call, self.context(tool, record))
        except (CallPending, LeaseLost, NewerFormat, *DATABASE_GONE):
            raise
        except ToolError as error:
            return replace(failure(error), untrusted=tool.untrusted)  # it may quote what the tool read
        except Exception:  # an unexpected error in a toolset must not end the run
            log.exception("Tool %s failed unexpectedly", record.name)
            return ToolResult.failed(
                "tool_broken", "the tool failed because of an internal error; see the server's log"
            )
        return self.doubt_if_cut_short(tool, record, result)

    def doubt_if_cut_short(self, tool: ToolSpec, record: ToolCallRecord, result: ToolResult) -> ToolResult:
        """A function that was cut short may have done what must not be done twice."""
        error = result.error or {}
        code = error.get("code")
        if result.ok or tool.kind != "function" or code not in CUT_SHORT:
            return result
        if tool.is_repeatable and record.pk not in self.wrote:
            return result
        message = f"the function was cut short ({code}); nobody knows what it had done by then"
        return replace(result, error={**error, "code": OutcomeUnknown.code, "message": message})

    def context(self, tool: ToolSpec, record: ToolCallRecord) -> ToolContext:
        """What the code of a tool may know of the run, and do in it."""
        run = self.run
        limit_s = tool.granted_s

        def ask(**question: Any) -> ToolResult:
            return inputs.ask_question(run, record, **question)

        def list_asked() -> list[dict[str, Any]]:
            if not record.details.get("reference"):
                return []  # it has asked nothing yet
            return inputs.list_earlier_states(record)

        def call_tool(name: str, arguments: dict[str, Any]) -> Any:
            return self.call_from_function(record, name, arguments)

        def spawn(agent: Any, text: str = "", input: Any = None, asked: Any = None) -> ToolResult:
            return children.spawn(
                run, agent, text=text, input=input, call=record, limit_s=limit_s, asked=asked, sources=tool.context
            )

        def start_chain(chain: Any, input: Any = None) -> ToolResult:
            return children.spawn_chain(run, chain, input, call=record, limit_s=limit_s)

        def delegate(capability: str, task: str, input: Any = None) -> Any:
            return children.delegate(run, record, capability, task, input, limit_s=limit_s, sources=tool.context)

        def emit(type: str, data: dict[str, Any]) -> None:
            self.tell((type, {"id": str(record.pk), **data}))

        return ToolContext(
            user_id=run.principal_id,
            run_id=str(run.pk),
            root_id=str(run.root_id or run.pk),
            agent=self.agent,
            agent_id=run.agent_id,
            session_id=str(run.session_id) if run.session_id else None,
            device_id=find_run_device(run),
            is_for_visitor=run.embed is not None,
            chain=run.policy.get("chain", ""),
            authors=partial(authors.find_run_owners, run),
            step=run.policy.get("step", ""),
            deadline=self.deadline(tool, record),
            is_untrusted=run.has_untrusted or record.untrusted,
            metadata=run.metadata,
            is_cancelled=self.lease.is_cancelled,
            # A function cannot wait for a person: what it calls is part of its own call.
            ask=None if record.parent_call_id else ask,
            asked=list_asked,
            call_tool=call_tool,
            tool_names=tuple(self.tools),
            spawn=spawn,
            start_chain=start_chain,
            delegate=delegate,
            emit=emit,
            values=RunValues(run, record),
            save_file=partial(artifacts.save_artifact, self, tool, record),
            files=partial(artifacts.within_reach, run),
            read_file=partial(artifacts.read_artifact, run),
            skills=partial(skills.within_reach, self),
            read_skill=partial(skills.archive, self),
        )

    def deadline(self, tool: ToolSpec, record: ToolCallRecord) -> datetime:
        """A callback ends no later than the call that makes it."""
        of_caller = None
        if record.parent_call_id:
            of_caller = self.deadlines.get(record.parent_call_id)
        of_run = clock.local(self.run.deadline) if self.run.deadline else None
        until = limits.deadline(timezone.now(), tool.deadline_s, of_run, of_caller)
        self.deadlines[record.pk] = until
        return until

    def lasts_until(self, time: datetime | None) -> bool:
        deadline = self.run.deadline
        return time is None or deadline is None or time < deadline

    # -- calls of a stored function

    def call_from_function(self, parent: ToolCallRecord, name: str, arguments: dict[str, Any]) -> Any:
        """A stored function calls a tool: recorded under its call, same policy, never waits."""
        tool = self.tools.get(name)
        self._origins = None  # what the function has read by now counts
        findings = self.findings(tool, arguments)
        decision = self.judge(tool, name, findings=findings, is_callback=True)
        if decision.mode != policy.ALLOW or tool is None:
            raise ToolFailed(decision.reason, code="denied")
        problems = schema.validate(tool.input_schema, arguments)
        if problems:
            raise ToolFailed(
                f"arguments of “{name}”: {problems[0]['message']}", code="invalid_arguments", details=problems
            )
        earlier_callbacks = ToolCallRecord.objects.filter(parent_call=parent)
        if earlier_callbacks.count() >= MAX_CALLBACKS:
            raise ToolFailed(f"one call may make {MAX_CALLBACKS} callbacks", code="too_many_callbacks")
        record = ToolCallRecord(
            id=uuid7(),
            run=self.run,
            parent_call=parent,
            turn=parent.turn,
            name=name,
            kind=tool.kind,
            effect=tool.effect,
            arguments=arguments,
            untrusted=self.run.has_untrusted and origins.is_derived(findings),
        )
        start_attempt(record)
        with transaction.atomic():
            self.tell(("tool.called", called_data(record)))
            insert_rows(record)
        self.called_back.add(parent.pk)
        if not tool.is_repeatable:
            self.wrote.add(parent.pk)
        try:
            result = self.answer(tool, record)
        except CallPending as pending:
            waits = ToolFailed(f"“{name}” would wait for a {pending.waiting_for}; a callback cannot", code="would_wait")
            result = failure(pending.instead or waits)
        self.settle(record, result)
        parent.untrusted = parent.untrusted or record.untrusted  # the function may say again what it has read
        if not result.ok:
            error = result.error or {}
            raise ToolFailed(error.get("message", "failed"), code=error.get("code", "tool_failed"))
        return result.value

    def note_pending(self, record: ToolCallRecord, pending: CallPending) -> None:
        until = events.format_moment(pending.until) if pending.until else None
        record.waiting_for = pending.waiting_for
        record.details = {**record.details, "reference": pending.reference, "until": until}
        update_each([record], ("waiting_for", "details"), where=call_records.still_open(record))

    def settle(self, record: ToolCallRecord, result: ToolResult) -> None:
        if record.pk in self.called_back:
            call_records.close_callbacks(record)
        call_records.settle_call(self.run, record, result, where=self.fence())

    def fence(self) -> dict[str, Any]:
        """What holds of the run's row while this executor may write to it."""
        if isinstance(self.lease, Lease):
            return self.lease.conditions()
        return {"status": Run.LIVE}

    @transaction.atomic
    def tell(self, *entries: events.Entry) -> None:
        """Events, or none: only to hold the run's row. Raises LeaseLost where another worker has the run."""
        if events.record_events_and_change(self.run, list(entries), where=self.fence()) is None:
            raise LeaseLost(str(self.run.pk))
