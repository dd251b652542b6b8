"""Images, audio and other binary content in the answers of MCP servers: they become files of the run."""

import binascii
from base64 import b64decode
from typing import Any

from agents.tools import ToolContext, ToolFailed, ToolSpec

FILES = 20  # of one answer
DATA = {"image": "data", "audio": "data", "resource": "blob"}  # type of a part → the field with its base64
JSON = Any


def with_files_stored(answer: dict[str, JSON], tool: ToolSpec, context: ToolContext) -> dict[str, JSON]:
    """The answer with its images and other binary content as files of the run: a text names each."""
    content = answer.get("content")
    if context.save_file is None or not isinstance(content, list):
        return answer
    names = (f"{tool.name}-{number}" for number in range(1, FILES + 1))
    shown = [stored(part, name, context) if is_binary(part) and (name := next(names, "")) else part for part in content]
    return {**answer, "content": shown}


def is_binary(part: JSON) -> bool:
    """An image, audio, or a resource with a blob."""
    return isinstance(part, dict) and isinstance(binary_in(part).get(DATA.get(part.get("type"), "")), str)


def binary_in(part: dict[str, JSON]) -> dict[str, JSON]:
    held = part.get("resource") if part.get("type") == "resource" else part
    return held if isinstance(held, dict) else {}


def stored(part: dict[str, JSON], name: str, context: ToolContext) -> dict[str, JSON]:
    """A text part that names the stored file, or the reason why there is none."""
    held = binary_in(part)
    declared = str(held.get("mimeType") or "")
    name = str(held.get("uri") or "").rpartition("/")[2] or f"{name}.{declared.rpartition('/')[2] or 'bin'}"
    try:
        assert context.save_file is not None
        file = context.save_file(name, b64decode(held[DATA[part["type"]]], validate=True), declared)
    except (binascii.Error, ValueError, ToolFailed) as error:
        return {"type": "text", "text": f"[left out: {declared or 'content'}: {error}]"}
    return {"type": "text", "text": f"[file {file['name']}, {file['media_type']}, stored as file:{file['file']}]"}
