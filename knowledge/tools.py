"""This app's toolset: memories."""

from agents.tools import ToolCall, ToolContext, ToolResult, ToolSpec
from knowledge.memory import calls
from knowledge.memory.recall import Similar


class KnowledgeToolset:
    """Executes tools of kind `knowledge`. `source` is {"memory": verb}.

    `similar` compares texts by meaning. Repeating a call with its old id finds what it wrote, so the calls of a
    crashed worker can be repeated (`is_durable`).
    """

    is_durable = True

    def __init__(self, similar: Similar | None = None) -> None:
        self.similar = similar

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        return calls.run(str(tool.source.get("memory")), call, context, self.similar)
