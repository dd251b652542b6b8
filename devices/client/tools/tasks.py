"""Tasks (ToDo, In Progress, Completed) and comments on them."""

from functools import partial
from typing import Any, Literal

from ..records import (
    Records,
    check_day,
    check_given,
    check_people,
    check_project,
    check_source,
    check_text,
    check_title,
    clamp_limit,
    equals,
    keep_given_values,
)

JSON = Any
State = Literal["ToDo", "In Progress", "Completed"]
Priority = Literal["low", "medium", "high"]


def list_tasks(
    records: Records,
    project_id: str | None = None,
    state: State | None = None,
    assignee: str | None = None,
    source: str | None = None,
    search: str | None = None,
    limit: int = 100,
) -> dict[str, JSON]:
    """List tasks, newest change first.

    Args:
        project_id: only tasks of this project
        state: only tasks in this state
        assignee: only tasks of this person
        source: only tasks that come from here, such as the thread of a mail
        search: words that the task contains
        limit: how many at most
    """
    equal = equals(project_id=project_id, state=state, source=source)
    return {"tasks": records.all("task", limit=clamp_limit(limit), search=search, assignee=assignee, **equal)}


def create_task(
    records: Records,
    title: str,
    description: str = "",
    project_id: str = "",
    state: State = "ToDo",
    priority: Priority = "medium",
    due_date: str = "",
    assignees: list[str] | None = None,
    source: str = "",
) -> dict[str, JSON]:
    """Create a task. Look with list_tasks first whether there is one already.

    Args:
        title: what is to be done
        description: details
        project_id: the project it belongs to; empty for none
        due_date: the day it is due, such as 2026-01-31; empty for none
        assignees: names or addresses of the people who do it
        source: where it comes from, such as the thread of a mail
    """
    values = {
        "title": check_title(title),
        "description": check_text(description),
        "project_id": check_project(records, project_id),
        "state": state,
        "priority": priority,
        "due_date": check_day(due_date),
        "assignees": check_people(assignees or []),
        "source": check_source(source),
    }
    return {"task": records.add("task", values)}


def update_task(
    records: Records,
    task_id: str,
    title: str | None = None,
    description: str | None = None,
    project_id: str | None = None,
    state: State | None = None,
    priority: Priority | None = None,
    due_date: str | None = None,
    assignees: list[str] | None = None,
) -> dict[str, JSON]:
    """Change a task; what is not given stays as it is.

    Args:
        task_id: id of the task
        assignees: all people who do it from now on
    """
    values = keep_given_values(
        title=check_given(check_title, title),
        description=check_given(check_text, description),
        project_id=check_given(partial(check_project, records), project_id),
        state=state,
        priority=priority,
        due_date=check_given(check_day, due_date),
        assignees=check_given(check_people, assignees),
    )
    return {"task": records.change("task", task_id, values)}


def add_task_comment(records: Records, task_id: str, text: str) -> dict[str, JSON]:
    """Add a comment to a task.

    Args:
        task_id: id of the task
        text: the comment
    """
    task = records.get("task", task_id)
    values = {"task_id": task["id"], "text": check_text(text), "author": records.author}
    return {"comment": records.add("comment", values)}
