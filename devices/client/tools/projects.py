"""Projects, which tasks, notes and timelines may belong to."""

from typing import Any, Literal

from ..records import Records, check_given, check_text, check_title, clamp_limit, keep_given_values

JSON = Any
Status = Literal["active", "paused", "completed", "archived"]


def list_projects(records: Records, limit: int = 100) -> dict[str, JSON]:
    """List the projects that are at work (active), with their ids.

    Args:
        limit: how many at most
    """
    return {"projects": records.all("project", limit=clamp_limit(limit), status="active")}


def list_all_projects(records: Records, limit: int = 500) -> dict[str, JSON]:
    """List all projects, also paused, completed and archived ones.

    Args:
        limit: how many at most
    """
    return {"projects": records.all("project", limit=clamp_limit(limit))}


def get_project(records: Records, project_id: str) -> dict[str, JSON]:
    """One project with its tasks, notes and timelines.

    Args:
        project_id: id of the project
    """
    project = records.get("project", project_id)
    kinds = {"tasks": "task", "notes": "note", "timelines": "timeline"}
    parts = {name: records.all(kind, limit=100, project_id=project_id) for name, kind in kinds.items()}
    return {"project": project, **parts}


def create_project(records: Records, name: str, description: str = "", status: Status = "active") -> dict[str, JSON]:
    """Create a project. Look with list_all_projects first whether there is one already.

    Args:
        name: what it is called
        description: what it is about
    """
    values = {"name": check_title(name), "description": check_text(description), "status": status}
    return {"project": records.add("project", values)}


def update_project(
    records: Records,
    project_id: str,
    name: str | None = None,
    description: str | None = None,
    status: Status | None = None,
) -> dict[str, JSON]:
    """Change a project; what is not given stays as it is.

    Args:
        project_id: id of the project
    """
    values = keep_given_values(
        name=check_given(check_title, name),
        description=check_given(check_text, description),
        status=status,
    )
    return {"project": records.change("project", project_id, values)}
