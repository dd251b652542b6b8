"""Reads the memory blocks and tools of Letta's agent files (`.af`), in both of its forms. Plain Python."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agents.exceptions import Invalid

BLOCKS = 100  # of one file
# Characters of one memory.
PIECE = 2000
LABEL = 200
TOOLS = 50  # of one file


def list_memory_pieces(document: dict[str, Any]) -> list[tuple[str, str]]:
    """(label, text) of each memory: a block, or a part of a longer one. Raises Invalid."""
    blocks = document.get("blocks") or document.get("core_memory") or []
    if not isinstance(blocks, list) or not blocks:
        raise Invalid("The file has no memory blocks.", code="no_blocks", hint="Send Letta's agent file as `file`.")
    if len(blocks) > BLOCKS:
        raise Invalid(f"The file has more than {BLOCKS} memory blocks.", code="too_many_blocks")
    memory_pieces: list[tuple[str, str]] = []
    for number, block in enumerate(blocks):
        memory_pieces.extend(iterate_block_pieces(number, block))
    return memory_pieces


def iterate_block_pieces(number: int, block: Any) -> Iterator[tuple[str, str]]:
    """(label, text) of a memory block, cut into texts of the length of a memory. Raises Invalid."""
    fields = block if isinstance(block, dict) else {}
    label = fields.get("label")
    value = fields.get("value")
    if not isinstance(label, str) or not isinstance(value, str):
        fault = {"field": f"file.blocks.{number}", "code": "invalid", "message": "Send label and value as texts."}
        raise Invalid(f"Block {number} has no label or no text.", details=[fault])
    for piece in split_block_text(value):
        if piece.strip():
            yield label[:LABEL], piece


def split_block_text(text: str) -> Iterator[str]:
    """Parts that are short enough, cut at the ends of lines where there are any."""
    while len(text) > PIECE:
        end = text.rfind("\n", 1, PIECE)
        if end < 0:
            end = PIECE
        yield text[:end]
        text = text[end:]
    yield text


@dataclass(frozen=True, slots=True)
class AgentTool:
    """`source` is None for what is not Python: Letta's own tools, MCP tools, TypeScript."""

    name: str
    source: str | None

    def code(self) -> str:
        """Raises Invalid."""
        if not self.source:
            raise Invalid(f"“{self.name[:100]}” has no Python source.", code="no_source")
        return self.source


def parse_agent_tools(document: dict[str, Any]) -> list[AgentTool]:
    """Raises Invalid."""
    tools = document.get("tools")
    if not isinstance(tools, list) or not tools:
        raise Invalid("The file has no tools.", code="no_tools", hint="Send Letta's agent file as `file`.")
    if len(tools) > TOOLS:
        raise Invalid(f"The file has more than {TOOLS} tools.", code="too_many_tools")
    return [parse_agent_tool(number, tool) for number, tool in enumerate(tools)]


def parse_agent_tool(number: int, tool: Any) -> AgentTool:
    """A tool with its source, None if it is not Python. Raises Invalid."""
    fields = tool if isinstance(tool, dict) else {}
    name = fields.get("name")
    source = fields.get("source_code")
    if not isinstance(name, str) or not isinstance(source, str | None):
        fault = {"field": f"file.tools.{number}", "code": "invalid", "message": "Send name and source_code as texts."}
        raise Invalid(f"Tool {number} has no name, or its source is not a text.", details=[fault])
    # Older files do not say the language: then it is Python.
    if fields.get("source_type") not in (None, "python", ""):
        source = None
    return AgentTool(name, source)
