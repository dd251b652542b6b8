"""Tools that the caller executes: sent with a message and offered to the model in that run only.

They are kept in the run's policy, so they survive restarts. The model's call becomes an input
request (`runs/calls/inputs.py`), and the caller sends the result.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from agents import schema
from agents.exceptions import Invalid
from agents.tools import ToolSpec

KIND = "caller"
POLICY = "tools"  # its place in the run's policy
MOST = 128
MOST_BYTES = 256 * 1024
TIMEOUT_S = 3600.0
NAME_PATTERN = r"^[A-Za-z0-9_-]{1,64}\Z"
NAME = re.compile(NAME_PATTERN)
FIELDS = frozenset(["name", "description", "input_schema", "timeout_s"])
RESERVED = frozenset(["complete", "read_skill", "search_tools"])


def check_caller_tools(tools: Any, reserved: Collection[str] = ()) -> list[dict[str, Any]]:
    """The tools as they are stored: {"name", "description", "input_schema", "timeout_s"}.

    `reserved` are the names of the agent's own tools. Raises Invalid with one detail per problem.
    """
    if not isinstance(tools, list) or len(tools) > MOST:
        raise Invalid(f"“tools” must be a list of at most {MOST} tools.", code="invalid_tools")
    problems = []
    for place, tool in enumerate(tools):
        for field, message in find_caller_tool_problems(tool):
            path = f"tools.{place}.{field}".rstrip(".")
            problems.append({"field": path, "code": "invalid", "message": message})
    if not problems:
        problems = name_problems([tool["name"] for tool in tools], reserved)
    if not problems and len(schema.canonical_json(tools).encode()) > MOST_BYTES:
        problems = [{"field": "tools", "code": "too_large", "message": f"more than {MOST_BYTES} bytes of JSON"}]
    if problems:
        hint = 'Send {"name", "description", "input_schema", "timeout_s"} for each tool.'
        raise Invalid("The tools are not valid.", code="invalid_tools", hint=hint, details=problems)
    checked = []
    for tool in tools:
        input_schema = tool.get("input_schema") or {"type": "object"}
        checked.append({**tool, "input_schema": input_schema})
    return checked


def find_caller_tool_problems(tool: Any) -> list[tuple[str, str]]:
    """(field, message) of each problem of one tool."""
    if not isinstance(tool, dict):
        return [("", "this must be an object")]
    problems = [(str(name)[:100], "there is no such field") for name in tool if name not in FIELDS]
    name = tool.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        problems.append(("name", "a name has 1 to 64 letters, digits, “_” or “-”"))
    if not isinstance(tool.get("description", ""), str):
        problems.append(("description", "this must be text"))
    timeout = tool.get("timeout_s", TIMEOUT_S)
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 1 <= timeout <= 86_400:
        problems.append(("timeout_s", "this must be a number of seconds from 1 to 86400"))
    if tool.get("input_schema") is not None:
        for problem in schema.check_schema(tool["input_schema"]):
            problems.append((f"input_schema{problem['path']}", problem["message"]))
    return problems


def name_problems(names: list[str], reserved: Collection[str]) -> list[dict[str, str]]:
    """Each name once, and none that a tool of the agent has: a caller cannot replace it."""
    problems = []
    names_in_use = {*reserved, *RESERVED}
    for place, name in enumerate(names):
        if name in names_in_use:
            message = f"the name “{name}” is already used"
            problems.append({"field": f"tools.{place}.name", "code": "name_taken", "message": message})
        names_in_use.add(name)
    return problems


def specs(policy: Mapping[str, Any]) -> dict[str, ToolSpec]:
    """The tools in a run's policy, by name. Their ids are negative: they have no row."""
    tools = {}
    for place, tool in enumerate(policy.get(POLICY, ())):
        tools[tool["name"]] = ToolSpec(
            id=-1 - place,
            name=tool["name"],
            kind=KIND,
            description=tool.get("description", ""),
            input_schema=tool["input_schema"],
            output_schema=None,
            effect="read",  # of the run: what it does, it does at the caller's
            source={},
            definition_hash="",
            untrusted=True,
            deadline_s=float(tool.get("timeout_s", TIMEOUT_S)),
        )
    return tools
