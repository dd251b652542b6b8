"""A minion: an agent called as a tool by another agent. It becomes a child run, which the runner
starts and waits for.
"""

from typing import Any

from agents.models import Agent
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec

JSON = Any


class MinionToolset:
    """Implements Toolset. `source` names the agent: {"agent": id}."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        """Starts the child run; `spawn` raises CallPending until it has ended, then returns its
        result.
        """
        agent = self._agent(tool)
        task = call.arguments.get("task")
        if not isinstance(task, str) or not task.strip():
            raise RetryTool("Describe the task for the agent in `task`.")
        if context.spawn is None:
            raise ToolFailed("An agent cannot be started from here.", code="cannot_spawn")
        return result_of(context.spawn(agent, task, call.arguments.get("input")))

    def _agent(self, tool: ToolSpec) -> Agent:
        agent = Agent.objects.select_related("published").filter(pk=tool.source.get("agent") or 0).first()
        if agent is None or agent.published is None or not agent.enabled:
            raise ToolFailed(f"The agent behind “{tool.name}” was deleted or is not published.", code="agent_missing")
        return agent


def result_of(value: JSON) -> ToolResult:
    """The child's end as a result. If the child read untrusted content, the result is marked
    untrusted too.
    """
    if isinstance(value, ToolResult):
        return value
    said = {name: value[name] for name in ("reply", "output", "agent", "run") if value.get(name) is not None}
    return ToolResult(ok=True, value=said, untrusted=bool(value.get("untrusted")))
