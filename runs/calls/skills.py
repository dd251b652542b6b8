"""The skills that are granted to an agent: the model is shown names and descriptions, and reads the rest with
`read_skill`.

Each skill is a granted tool of kind `skill`, and that grant decides whether it may be read. What a skill says about
`allowed-tools` changes no right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agents import storage
from agents.models import StoredFile
from agents.tools import ToolResult, ToolSpec
from knowledge.models import SkillVersion
from runs.models import ToolCallRecord
from runs.models.session import parsed_id
from runs.rules import policy

KIND = "skill"
ROOM = 12_000  # characters of all descriptions in a prompt; the names are always there
NAME = {"type": "string", "description": "The name of the skill."}
READ = ToolSpec(
    id=0,
    name="read_skill",
    kind="builtin",
    description="Read a skill: instructions for a kind of task. Read it before you begin such a task. The result names "
    "its other files; read them with `path` when the instructions refer to them.",
    input_schema={
        "type": "object",
        "properties": {
            "name": NAME,
            "path": {"type": "string", "maxLength": 240, "description": "One of its files; default: SKILL.md."},
            "offset": {"type": "integer", "minimum": 0, "description": "Where to go on in a long file."},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    output_schema=None,
    effect="read",
    source={"builtin": "read_skill"},
    definition_hash="read-skill-1",
)


def with_reader(tools: dict[str, ToolSpec]) -> dict[str, ToolSpec]:
    """The tools, with `read_skill` if there is a skill among them."""
    has_skill = any(tool.kind == KIND for tool in tools.values())
    if not has_skill:
        return tools
    return {**tools, READ.name: READ}


def is_reader(tool: ToolSpec | None) -> bool:
    if tool is None or tool.kind != READ.kind:
        return False
    return tool.name == READ.name


def is_shown_together(tool: ToolSpec) -> bool:
    """Skills are not shown to a model as tools of their own."""
    return tool.kind == KIND or is_reader(tool)


def list_skill_tools(executor: Any) -> tuple[ToolSpec, ...]:
    """`read_skill` with the skills that this run may read; empty without such skills."""
    if not is_reader(executor.tools.get(READ.name)):
        return ()
    skills = list_undenied_skills(executor)
    if not skills:
        return ()
    name_schema = {**NAME, "enum": [tool.name for tool in skills]}
    properties = {**READ.input_schema["properties"], "name": name_schema}
    input_schema = {**READ.input_schema, "properties": properties}
    description = f"{READ.description}\n\nSkills:\n{describe_skills(skills)}"
    return (replace(READ, description=description, input_schema=input_schema),)


def describe_skills(skills: Iterable[ToolSpec]) -> str:
    """A line for each; the first descriptions in full, as far as there is room."""
    lines = []
    room = ROOM
    for tool in skills:
        description = " ".join(tool.description.split())[:room]
        room -= len(description)
        if description:
            lines.append(f"- {tool.name}: {description}")
        else:
            lines.append(f"- {tool.name}")
    return "\n".join(lines)


def list_undenied_skills(executor: Any) -> list[ToolSpec]:
    """The skills whose grants do not deny them."""
    undenied = []
    for tool in executor.tools.values():
        if tool.kind == KIND and executor.judge(tool, tool.name).mode != policy.DENY:
            undenied.append(tool)
    return undenied


def find_requested_skill(tools: Mapping[str, ToolSpec], tool: ToolSpec | None, arguments: Any) -> ToolSpec | None:
    """The skill that a call of `read_skill` reads: its grant decides about the call. Any other call's own tool."""
    if not is_reader(tool) or not isinstance(arguments, dict):
        return tool
    name = arguments.get("name")
    skill = tools.get(name) if isinstance(name, str) else None
    if skill is None or skill.kind != KIND:
        return tool
    return skill


def find_deciding_tool(executor: Any, record: ToolCallRecord) -> Any:
    """The tool whose grant decides about this call; None if the run has no such tool."""
    tool = executor.tools.get(record.name)
    return find_requested_skill(executor.tools, tool, record.arguments)


def read_skill(executor: Any, record: ToolCallRecord) -> ToolResult:
    """The result of `read_skill`. The grant is checked again: it may have changed while the call waited."""
    skill = find_requested_skill(executor.tools, READ, record.arguments)
    if skill is None or skill.kind != KIND:
        names = ", ".join(tool.name for tool in list_undenied_skills(executor))
        return ToolResult.failed("unknown_skill", f"there is no such skill here; there are: {names}")
    decision = executor.judge(skill, skill.name)
    if decision.mode == policy.DENY:
        return ToolResult.failed("denied", decision.reason)
    return executor.made(skill, record)


# -- in the interpreter ------------------------------------------------------------------------------------------------


def within_reach(executor: Any) -> list[dict[str, Any]]:
    """The skills that Python may read, as `ToolContext.skills` describes them."""
    names = {tool.source.get("id"): tool.name for tool in list_allowed_skills(executor)}
    if not names:
        return []
    rows = SkillVersion.objects.filter(pk__in=names).select_related("bundle")
    return [describe_skill(names[row.pk], row) for row in rows]


def describe_skill(name: str, version: SkillVersion) -> dict[str, Any]:
    bundle = version.bundle
    return {
        "name": name,
        "version": version.number,
        "text": version.text,
        "untrusted": version.untrusted,
        "file": str(bundle.pk) if bundle else None,
        "size": bundle.size if bundle else 0,
    }


def list_allowed_skills(executor: Any) -> list[ToolSpec]:
    """Those that are allowed. One that asks is read through `read_skill`, which can wait for the answer; once this run
    has read it, Python finds it too.
    """
    skills = list_undenied_skills(executor)
    allowed = {tool.name for tool in skills if executor.judge(tool, tool.name).mode == policy.ALLOW}
    if len(allowed) < len(skills):
        allowed |= names_read(executor.run)
    return [tool for tool in skills if tool.name in allowed]


def names_read(run: Any) -> set[str]:
    succeeded = ToolCallRecord.objects.filter(run=run, outcome=ToolCallRecord.Outcome.OK)
    reads = succeeded.filter(name=READ.name, kind=READ.kind)
    return {arguments["name"] for arguments in reads.values_list("arguments", flat=True)}


def archive(executor: Any, file_id: str) -> bytes | None:
    """The archive of one of these skills; None if it is not among them."""
    ids = {tool.source.get("id") for tool in list_allowed_skills(executor)}
    file = StoredFile.objects.filter(skill_versions__in=ids, pk=parsed_id(file_id)).first()
    if file is None:
        return None
    return storage.read_stored_file(file)
