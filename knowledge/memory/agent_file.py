"""Reads the memory blocks of Letta's agent files (`.af`), in both of its forms. Plain Python."""

from collections.abc import Iterator
from typing import Any

from agents.exceptions import Invalid

BLOCKS = 100  # of one file
PIECE = 2000  # characters of one memory
LABEL = 200


def pieces_of(document: dict[str, Any]) -> list[tuple[str, str]]:
    """(label, text) of each memory: a block, or a part of a longer one. Raises Invalid."""
    blocks = document.get("blocks") or document.get("core_memory") or []
    if not isinstance(blocks, list) or not blocks:
        raise Invalid("The file has no memory blocks.", code="no_blocks", hint="Send Letta's agent file as `file`.")
    if len(blocks) > BLOCKS:
        raise Invalid(f"The file has more than {BLOCKS} memory blocks.", code="too_many_blocks")
    return [(label, piece) for number, block in enumerate(blocks) for label, piece in pieces(number, block)]


def pieces(number: int, block: Any) -> Iterator[tuple[str, str]]:
    label, value = (block.get("label"), block.get("value")) if isinstance(block, dict) else (None, None)
    if not isinstance(label, str) or not isinstance(value, str):
        fault = {"field": f"file.blocks.{number}", "code": "invalid", "message": "Send label and value as texts."}
        raise Invalid(f"Block {number} has no label or no text.", details=[fault])
    yield from ((label[:LABEL], piece) for piece in split(value) if piece.strip())


def split(text: str) -> Iterator[str]:
    """Parts that are short enough, cut at the ends of lines where there are any."""
    while len(text) > PIECE:
        end = text.rfind("\n", 1, PIECE)
        end = PIECE if end < 0 else end
        yield text[:end]
        text = text[end:]
    yield text
