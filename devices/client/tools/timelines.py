"""Timelines: what happens from when to when."""

from functools import partial
from typing import Any, Literal

from ..exceptions import ToolRefused
from ..records import (
    Records,
    check_day,
    check_given,
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


def list_timelines(
    records: Records,
    project_id: str | None = None,
    source: str | None = None,
    search: str | None = None,
    limit: int = 100,
) -> dict[str, JSON]:
    """List timelines, newest change first.

    Args:
        project_id: only timelines of this project
        source: only timelines that come from here, such as the thread of a mail
        search: words that the timeline contains
        limit: how many at most
    """
    equal = equals(project_id=project_id, source=source)
    return {"timelines": records.all("timeline", limit=clamp_limit(limit), search=search, **equal)}


def create_timeline(
    records: Records,
    title: str,
    start_date: str = "",
    end_date: str = "",
    description: str = "",
    project_id: str = "",
    state: State = "ToDo",
    source: str = "",
) -> dict[str, JSON]:
    """Create a timeline. Look with list_timelines first whether there is one already.

    Args:
        title: what happens
        start_date: first day, such as 2026-01-31; empty for unknown
        end_date: last day; empty for unknown
        project_id: the project it belongs to; empty for none
        source: where it comes from, such as the thread of a mail
    """
    values = {
        "title": check_title(title),
        "start_date": check_day(start_date),
        "end_date": check_day(end_date),
        "description": check_text(description),
        "project_id": check_project(records, project_id),
        "state": state,
        "source": check_source(source),
    }
    check_order(values["start_date"], values["end_date"])
    return {"timeline": records.add("timeline", values)}


def update_timeline(
    records: Records,
    timeline_id: str,
    title: str | None = None,
    start_date: str | None = None,
    end_date: str | None = None,
    description: str | None = None,
    project_id: str | None = None,
    state: State | None = None,
) -> dict[str, JSON]:
    """Change a timeline; what is not given stays as it is.

    Args:
        timeline_id: id of the timeline
    """
    values = keep_given_values(
        title=check_given(check_title, title),
        start_date=check_given(check_day, start_date),
        end_date=check_given(check_day, end_date),
        description=check_given(check_text, description),
        project_id=check_given(partial(check_project, records), project_id),
        state=state,
    )
    current = records.get("timeline", timeline_id) | values
    check_order(current["start_date"], current["end_date"])
    return {"timeline": records.change("timeline", timeline_id, values)}


def check_order(start: str, end: str) -> None:
    if start and end and start > end:
        raise ToolRefused("invalid_arguments", "a timeline ends before it starts")
