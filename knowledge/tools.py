"""This app's toolsets: memories, collections and skills."""

from agents.tools import ToolCall, ToolContext, ToolResult, ToolSpec
from knowledge.collections import calls as collections
from knowledge.collections.device_folders import Asker
from knowledge.memory import calls
from knowledge.memory.recall import Similar
from knowledge.skills import calls as skills


class KnowledgeToolset:
    """Executes tools of kind `knowledge`. `source` is {"memory": verb} or
    {"collection": id, "verb": verb}.

    `similar` compares texts by meaning. Repeating a call with its old id finds what it wrote, so the calls of a
    crashed worker can be repeated (`is_durable`).
    """

    is_durable = True

    def __init__(self, similar: Similar | None = None) -> None:
        self.similar = similar

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        if "collection" in tool.source:
            asker = Asker(context.user_id, is_for_visitor=context.is_for_visitor)
            return collections.run_collection_call(tool, call, asker)
        verb = str(tool.source.get("memory"))
        return calls.run_memory_call(verb, call, context, self.similar)


class SkillToolset:
    """Executes tools of kind `skill`: a call reads one file of the skill, SKILL.md by default."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        return skills.read_skill_file(tool, call.arguments)
