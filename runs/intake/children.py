"""Child runs: an agent called by another (a minion), a task that is delegated, or a chain's agent step. Checked
completely before a row is created.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, transaction

from agents.exceptions import MusterError, NewerFormat
from agents.http.room import check_room
from agents.models import Agent, AgentVersion, Chain
from agents.tools import CallPending, ToolFailed, ToolResult
from registry.routing import delegation
from runs.events import record as events
from runs.models import Message, Run, RunEvent, Session, ToolCallRecord
from runs.models.figures import track_records
from runs.queue import fair_queue, wakeups

from . import authors, chains, checks, context, options


def spawn(
    parent: Run,
    agent: Agent | str,
    *,
    text: str = "",
    input: Any = None,
    call: ToolCallRecord,
    sources: Sequence[dict[str, Any]] = (),
    limit_s: float | None = None,
    asked: dict[str, Any] | None = None,
) -> ToolResult:
    """Called by a minion's toolset: start the child once, then raise CallPending until it has
    ended. It ends after `limit_s` at the latest: the limit of the caller's grant.

    The result's value is {"reply", "output", "run", "agent", "status"}; raises ToolFailed for an
    unsuccessful child, NewerFormat for one that a newer worker has to start.
    """
    child = Run.objects.filter(parent_call=call).select_related("agent").first()
    if child is None:
        with refusal_fails_the_call():
            called = callable_agent(parent, agent)
            more: dict[str, Any] = {"sources": sources, "limit_s": limit_s, "asked": asked}
            child = start_child(parent, called, text=text, input=input, call=call, **more)
    return finish_child_call(child)


def spawn_chain(
    parent: Run, chain: Chain, input: Any, *, call: ToolCallRecord, limit_s: float | None = None
) -> ToolResult:
    """The same for a chain; the result's value is {"output", "run", "chain", "status"}."""
    child = Run.objects.filter(parent_call=call).select_related("chain_version__chain").first()
    if child is None:
        with refusal_fails_the_call():
            child = start_chain(parent, chain, input, call=call, limit_s=limit_s)
    return finish_child_call(child)


def delegate(run: Run, call: ToolCallRecord, capability: str, task: str, input: Any = None, **more: Any) -> Any:
    """The built-in tool `delegate`: choose an agent, record the reason, start the child once, then wait for it as a
    minion's caller does; `more` as in spawn. Raises CallPending, ToolFailed.
    """
    started = Run.objects.filter(parent_call=call).select_related("agent").first()
    if started is not None and started.agent is not None:
        return spawn(run, started.agent.name, call=call)
    agent = choose_delegate(run, call, capability, task)
    return spawn(run, agent, text=task, input=input, call=call, **more)


def choose_delegate(run: Run, call: ToolCallRecord, capability: str, task: str) -> Agent:
    """The agent for this task; the choice is recorded with the call and as an event."""
    may = run.version.read_spec().delegates_to if run.version else []
    delegable = {str(name).strip().lower() for name in may}
    if may and capability.strip().lower() not in delegable:
        raise ToolFailed(f"You may delegate {', '.join(map(str, may))}, not “{capability}”.", code="not_delegable")
    # An agent that waits for this task cannot do it.
    busy = {above.agent_id for above in checks.lineage(run) if above.agent_id}
    route = delegation.for_capability(
        run.principal, capability, task, excluding=busy, track_record=track_records.lately, also_for=authors.others(run)
    )
    if route.agent is None:
        raise ToolFailed(f"No agent can take this: {route.reason}", code="nobody_fits")
    decision = route.as_json()
    choice = {
        "capability": capability,
        "agent": decision["agent"],
        "reason": decision["reason"],
        "candidates": decision["candidates"],
    }
    call.details = {**call.details, "delegated": choice}
    call.save(update_fields=["details"])
    events.record_event(run, "child.chosen", {"id": str(call.pk), **choice})
    return route.agent


@contextmanager
def refusal_fails_the_call() -> Iterator[None]:
    """If the child may not be started, the call fails with the reason. Raises ToolFailed, NewerFormat."""
    try:
        yield
    except NewerFormat:
        raise
    except MusterError as error:
        raise ToolFailed(str(error), code=error.code, details=error.details)


def finish_child_call(child: Run) -> ToolResult:
    """Raises CallPending until the child has ended."""
    if not child.is_done:
        raise CallPending("child", until=child.deadline, reference=str(child.pk))
    return ToolResult(ok=True, value=build_child_result(child), untrusted=child.has_untrusted)


def start_chain(parent: Run, chain: Chain, input: Any, *, call: ToolCallRecord, limit_s: float | None) -> Run:
    """A queued run of the chain for the parent's person. Raises MusterError, ToolFailed."""
    usable = Chain.objects.select_related("published").usable_by(parent.principal).filter(pk=chain.pk).first()
    if usable is None:
        raise ToolFailed(f"There is no chain “{chain.name}” that this run's user can use.", code="unknown_chain")
    version = checks.version_of_chain(usable)
    checks.check_nesting(parent, usable)
    try:
        with transaction.atomic():
            return chains.create_child(parent, version, input, timeout_s=limit_s, call=call)
    except IntegrityError:  # a second worker was first
        return Run.objects.select_related("chain_version__chain").get(parent_call=call)


def callable_agent(parent: Run, choice: Agent | str) -> Agent:
    """The agent (by its name for the principal), within the depth limit and not among the
    ancestors.
    """
    agents = Agent.objects.usable_by(parent.principal).select_related("published", "provider")
    if isinstance(choice, str):
        name = choice
        try:
            agent = agents.named(parent.principal, name)
        except MusterError as error:
            raise ToolFailed(str(error), code="unknown_agent")
    else:
        name = choice.name
        agent = agents.filter(pk=choice.pk).first()
    if agent is None:
        raise ToolFailed(f"There is no agent “{name}” that this run's user can use.", code="unknown_agent")
    checks.version_of_agent(agent)
    checks.check_depth(parent, agent)
    return agent


def start_child(
    parent: Run,
    agent: Agent,
    *,
    text: str = "",
    input: Any = None,
    version: AgentVersion | None = None,
    call: ToolCallRecord | None = None,
    policy: dict[str, Any] | None = None,
    sources: Sequence[dict[str, Any]] = (),
    session: Session | None = None,
    timeout_s: float | None = None,
    limit_s: float | None = None,
    trigger: str = Run.Trigger.AGENT,
    metadata: dict[str, Any] | None = None,
    asked: dict[str, Any] | None = None,
) -> Run:
    """A queued child run in a child session, or in `session`. Raises MusterError if it cannot be started, ToolFailed
    for its context.

    `timeout_s` replaces the agent's own time limit, `limit_s` only shortens it. `asked`: its options,
    without a budget, since that of the root run holds.
    """
    version = checks.version_of_agent(agent, version)
    authors.check_callee_shared(parent, agent)
    spec = version.read_spec()
    checks.check_input(spec, input)
    check_room(parent.principal_id, text, input, is_visitors=parent.embed is not None)
    values = options.parse_options({**(asked or {}), "budget": None})
    asker = context.Asker.of(parent) if sources else context.Asker(parent.principal_id)
    context_text = context.gather(asker, sources)
    is_marked = parent.has_untrusted or context.is_untrusted(asker, sources)
    policy = dict(policy or {})
    if context_text:
        policy["context"] = context_text
    # A step of a chain is as deep as its chain: only agents that call agents count.
    depth = parent.depth
    if trigger == Run.Trigger.AGENT:
        depth += 1
    own_spec = None if timeout_s else spec
    child = Run(
        principal_id=parent.principal_id,
        embed=parent.embed,
        agent=agent,
        version=version,
        parent=parent,
        root_id=parent.root_pk,
        parent_call=call,
        depth=depth,
        trigger=trigger,
        input=input,
        policy=policy,
        options={"asked": values} if values else {},
        has_untrusted=is_marked,
        metadata={**parent.metadata, **(metadata or {})},
        deadline=checks.deadline(own_spec, timeout_s or limit_s, parent=parent),
        last_event=1,
    )
    shortest = min(limit_s, spec.timeout_s) if limit_s else spec.timeout_s
    options.settle_options(child, spec, timeout=timeout_s or shortest)
    return store_child(child, parent, agent, session, text or "Begin.")


def store_child(child: Run, parent: Run, agent: Agent, session: Session | None, text: str) -> Run:
    """The child with its message, in the queue; or the one that another worker stored first for the
    same call.
    """
    try:
        with transaction.atomic():
            if session is None:
                session = open_child_session(parent, agent, depth=child.depth, limit=checks.depth_limit(parent))
            mark(session, child.has_untrusted)
            child.session = session
            fair_queue.classify(child, parent=parent)
            fair_queue.line_up(child)
            child.save(force_insert=True)
            parts = [{"type": "text", "text": text}]
            session.add_message(Message.Role.USER, parts, run=child, untrusted=child.has_untrusted)
            record_child_events(child, parent, agent.name)
            wakeups.enqueue(child)
    except IntegrityError:
        if child.parent_call_id is None:
            raise
        return Run.objects.select_related("agent").get(parent_call=child.parent_call_id)
    return child


def mark(session: Session, has_untrusted: bool) -> None:
    """A new one is stored with its mark; one that others write to is only ever marked."""
    if session._state.adding:
        session.has_untrusted = has_untrusted
    elif has_untrusted and not session.has_untrusted:
        session.has_untrusted = True
        Session.objects.filter(pk=session.pk).update(has_untrusted=True)


def record_child_events(child: Run, parent: Run, agent: str) -> None:
    queued = {"trigger": child.trigger, "agent": agent}
    RunEvent.objects.create(run=child, seq=1, type="run.queued", at=child.created_at, data=queued)
    chains.tell_parent(parent, {"run": str(child.pk), "agent": agent})


def open_child_session(parent: Run, agent: Agent, *, depth: int, limit: int) -> Session:
    variables = {
        "agent_depth": depth,
        "max_agent_depth": limit,
        "can_spawn": depth < limit,
        "parent_session": str(parent.session_id) if parent.session_id else None,
    }
    return Session(
        owner_id=parent.principal_id,
        agent=agent,
        parent_id=parent.session_id,
        depth=depth,
        device=parent.session.device if parent.session else None,
        has_untrusted=parent.has_untrusted,
        variables=variables,
        metadata={"embed": str(parent.embed)} if parent.embed else {},
    )


def build_child_result(child: Run) -> dict[str, Any]:
    """A child's end as seen by its caller, with its origin."""
    if child.status not in (Run.Status.SUCCEEDED, Run.Status.PARTIAL):
        error = child.error or {}
        name = child.agent.name if child.agent else child.chain_version.chain.name
        raise ToolFailed(
            f"{name} ended with status {child.status}: {error.get('message', '')}",
            code=f"child_{child.status}",
            details={"run": str(child.pk), "error": error},
        )
    if child.chain_version:
        return {
            "output": child.output,
            "run": str(child.pk),
            "chain": child.chain_version.chain.name,
            "status": child.status,
        }
    return {
        "reply": reply_text(child),
        "output": child.output,
        "run": str(child.pk),
        "agent": child.agent.name if child.agent else None,
        "status": child.status,
    }


def reply_text(run: Run) -> str:
    replies = Message.objects.filter(run=run, role=Message.Role.ASSISTANT)
    message = replies.order_by("-seq").first()
    return message.text if message else ""


def own_input(input: dict[str, Any]) -> dict[str, Any] | None:
    """The agent's own part of a step's input, without the message and the step's settings."""
    own = {name: value for name, value in input.items() if name not in ("message", "allowed_tools")}
    return own or None
