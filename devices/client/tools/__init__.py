"""All tools of the client in one table. A new tool is a function in one of these modules and a line
here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from devices.protocol import tool_hash

from .. import schema
from . import filesystem, notes, projects, searching, tasks, timelines

JSON = Any


@dataclass(frozen=True, slots=True)
class Tool:
    """One built-in tool. `works_on` is workspace or records; `counts` is what one success adds to
    the run's counts.
    """

    name: str
    function: Callable[..., JSON]
    works_on: str
    effect: str
    counts: str
    description: str
    input_schema: dict[str, JSON]
    hash: str

    @classmethod
    def of(cls, function: Callable[..., JSON], works_on: str, effect: str, counts: str = "") -> "Tool":
        name = function.__name__
        description = schema.description(function)
        input_schema = schema.input_schema(function)
        hash = tool_hash(name, description, input_schema)
        return cls(name, function, works_on, effect, counts, description, input_schema, hash)


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in [
        Tool.of(filesystem.list_directory, "workspace", "read"),
        Tool.of(filesystem.get_file_metadata, "workspace", "read"),
        Tool.of(filesystem.read_file_content, "workspace", "read", "processed"),
        Tool.of(searching.search_files, "workspace", "read"),
        Tool.of(tasks.list_tasks, "records", "read"),
        Tool.of(tasks.create_task, "records", "write", "created"),
        Tool.of(tasks.update_task, "records", "write", "updated"),
        Tool.of(tasks.add_task_comment, "records", "write", "updated"),
        Tool.of(notes.list_notes, "records", "read"),
        Tool.of(notes.get_note, "records", "read"),
        Tool.of(notes.create_note, "records", "write", "created"),
        Tool.of(notes.update_note, "records", "write", "updated"),
        Tool.of(timelines.list_timelines, "records", "read"),
        Tool.of(timelines.create_timeline, "records", "write", "created"),
        Tool.of(timelines.update_timeline, "records", "write", "updated"),
        Tool.of(projects.list_projects, "records", "read"),
        Tool.of(projects.list_all_projects, "records", "read"),
        Tool.of(projects.get_project, "records", "read"),
        Tool.of(projects.create_project, "records", "write", "created"),
        Tool.of(projects.update_project, "records", "write", "updated"),
    ]
}
