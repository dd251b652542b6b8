"""A minion: an agent called by another as a tool. It becomes a child run, which the runner starts and waits for."""

from typing import Any

from agents.models import Agent
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec

JSON = Any


class MinionToolset:
    """Implements Toolset. `source` names the agent: {"agent": id}."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        """Starts the child run; `spawn` raises CallPending until it has ended, then gives its result."""
        agent = self._agent(tool)
        task = call.arguments.get("task")
        if not isinstance(task, str) or not task.strip():
            raise RetryTool("Say in `task` what the agent shall do.")
        if context.spawn is None:
            raise ToolFailed("No agent can be started from here.", code="cannot_spawn")
        return result_of(context.spawn(agent, task, call.arguments.get("input")))

    def _agent(self, tool: ToolSpec) -> Agent:
        agent = Agent.objects.select_related("published").filter(pk=tool.source.get("agent") or 0).first()
        if agent is None or agent.published is None or not agent.enabled:
            raise ToolFailed(f"The agent behind “{tool.name}” is gone or not published.", code="agent_missing")
        return agent


def result_of(value: JSON) -> ToolResult:
    """The child's end as a result; what it read from strangers marks the caller too."""
    if isinstance(value, ToolResult):
        return value
    said = {name: value[name] for name in ("reply", "output", "agent", "run") if value.get(name) is not None}
    return ToolResult(ok=True, value=said, untrusted=bool(value.get("untrusted")))
