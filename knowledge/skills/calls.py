"""An agent reads a skill: its instructions, and its files one by one."""

from typing import Any

from agents.tools import RetryTool, ToolFailed, ToolResult, ToolSpec
from knowledge.models import SkillVersion
from plumbing.untrusted.formats import clean_untrusted_text

from . import files

# Characters of a file in one result.
PIECE = 40_000
MOST_PATHS = 200


def load_granted_version(tool: ToolSpec) -> SkillVersion:
    """The version that the grant gives. Raises ToolFailed."""
    rows = SkillVersion.objects.filter(pk=tool.source.get("id"))
    version = rows.select_related("bundle").first()
    if version is None:
        raise ToolFailed(f"The skill “{tool.name}” was deleted, or has no such version.", code="unknown_skill")
    return version


def read_skill_file(tool: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
    """{"skill", "version", "path", "text"}, with "files" for SKILL.md and "next_offset" for a long file.

    The result of a version that no person has reviewed is marked as text of strangers. Raises RetryTool, ToolFailed.
    """
    version = load_granted_version(tool)
    path = str(arguments.get("path") or files.MAIN).removeprefix("./")
    content = files.read_one(version, path)
    if content is None:
        raise RetryTool(
            f"The skill “{tool.name}” has no file “{path[:100]}”. Its files: {format_skill_paths(version.paths)}."
        )
    offset = arguments.get("offset") or 0
    piece = build_skill_piece(content, offset, f"/mnt/skills/{tool.name}/{path}")
    value: dict[str, Any] = {"skill": tool.name, "version": version.number, "path": path, **piece}
    if path == files.MAIN:
        value["files"] = version.paths[:MOST_PATHS]
    return ToolResult(ok=True, value=value, untrusted=version.untrusted)


def build_skill_piece(content: bytes, offset: int, place: str) -> dict[str, Any]:
    try:
        text = clean_untrusted_text(content.decode())
    except UnicodeDecodeError:
        return {"size": len(content), "note": f"This is not a text. Python finds it at {place}."}
    end = offset + PIECE
    piece: dict[str, Any] = {"text": text[offset:end]}
    if len(text) > end:
        piece["next_offset"] = end
    return piece


def format_skill_paths(paths: list[str]) -> str:
    text = ", ".join([files.MAIN, *paths[:50]])
    return text[:2000]
