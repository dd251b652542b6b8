"""The built-in tool `delegate(capability, task)`: choose an agent, record the reason, start the
child run.
"""

from typing import Any

from agents.models import Agent
from agents.tools import ToolFailed
from registry.routing import delegation
from runs.events import record as events
from runs.intake import authors, checks, children
from runs.models import Run, ToolCallRecord
from runs.models.figures import track_records


def delegate(run: Run, call: ToolCallRecord, capability: str, task: str, input: Any = None, **more: Any) -> Any:
    """Start the child once, then wait for it as a minion's caller does; `more` as in children.spawn.
    Raises CallPending, ToolFailed.
    """
    started = Run.objects.filter(parent_call=call).select_related("agent").first()
    if started is not None and started.agent is not None:
        return children.spawn(run, started.agent.name, call=call)
    agent = choose_delegate(run, call, capability, task)
    return children.spawn(run, agent, text=task, input=input, call=call, **more)


def choose_delegate(run: Run, call: ToolCallRecord, capability: str, task: str) -> Agent:
    """The agent for this task; the choice is recorded with the call and as an event."""
    may = run.version.read_spec().delegates_to if run.version else []
    if may and capability.strip().lower() not in {str(one).strip().lower() for one in may}:
        raise ToolFailed(f"You may delegate {', '.join(map(str, may))}, not “{capability}”.", code="not_delegable")
    busy = {above.agent_id for above in checks.lineage(run) if above.agent_id}
    route = delegation.for_capability(
        run.principal, capability, task, excluding=busy, track_record=track_records.lately, also_for=authors.others(run)
    )
    if route.agent is None:
        raise ToolFailed(f"No agent can take this: {route.reason}", code="nobody_fits")
    decision = route.as_json()
    choice = {"capability": capability} | {name: decision[name] for name in ("agent", "reason", "candidates")}
    call.details = {**call.details, "delegated": choice}
    call.save(update_fields=["details"])
    events.record_event(run, "child.chosen", {"id": str(call.pk), **choice})
    return route.agent
