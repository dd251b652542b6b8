"""Agents and chains called as tools. Each call becomes a child run, which the runner starts and waits
for.
"""

from typing import Any

from agents.models import Agent, Chain
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec

JSON = Any


class MinionToolset:
    """Implements Toolset. `source` names the agent: {"agent": id}."""

    # Asking again finds the child run of the call.
    is_durable = True

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        """Starts the child run; `spawn` raises CallPending until it has ended, then returns its
        result.
        """
        agent = self._agent(tool)
        arguments = call.arguments
        task = arguments.get("task")
        if not isinstance(task, str) or not task.strip():
            raise RetryTool("Describe the task for the agent in `task`.")
        if context.spawn is None:
            raise ToolFailed("An agent cannot be started from here.", code="cannot_spawn")
        more: dict[str, JSON] = {}
        variables = arguments.get("variables")
        if variables:
            more["asked"] = {"variables": variables}
        reply = context.spawn(agent, task, arguments.get("input"), **more)
        return build_minion_result(reply)

    def _agent(self, tool: ToolSpec) -> Agent:
        agent_id = tool.source.get("agent") or 0
        agent = Agent.objects.select_related("published").filter(pk=agent_id).first()
        if agent is None or agent.published is None or not agent.enabled:
            raise ToolFailed(f"The agent behind “{tool.name}” was deleted or is not published.", code="agent_missing")
        return agent


class ChainToolset:
    """Implements Toolset. `source` names the chain: {"chain": id}."""

    is_durable = True

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        """Starts the chain's run; raises CallPending until it has ended, then returns its result."""
        chain_id = tool.source.get("chain") or 0
        chain = Chain.objects.select_related("published").filter(pk=chain_id).first()
        if chain is None or chain.published is None or not chain.enabled:
            raise ToolFailed(f"The chain behind “{tool.name}” was deleted or is not published.", code="chain_missing")
        if context.start_chain is None:
            raise ToolFailed("A chain cannot be started from here.", code="cannot_spawn")
        spec = chain.published.read_spec()
        # A chain with a schema of its own gets the arguments themselves.
        chain_input = call.arguments
        if not spec.takes_arguments:
            chain_input = call.arguments.get("input")
        reply = context.start_chain(chain, chain_input)
        return build_minion_result(reply)


def build_minion_result(value: JSON) -> ToolResult:
    """The child's end as a result. If the child read untrusted content, the result is marked
    untrusted too.
    """
    if isinstance(value, ToolResult):
        return value
    answer = {}
    for name in ("reply", "output", "agent", "run"):
        if value.get(name) is not None:
            answer[name] = value[name]
    is_untrusted = bool(value.get("untrusted"))
    return ToolResult(ok=True, value=answer, untrusted=is_untrusted)
