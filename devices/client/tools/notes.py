"""Notes."""

from functools import partial
from typing import Any

from ..records import (
    Records,
    check_given,
    check_project,
    check_source,
    check_text,
    check_title,
    clamp_limit,
    drop_fields,
    equals,
    keep_given_values,
)

JSON = Any


def list_notes(
    records: Records,
    project_id: str | None = None,
    source: str | None = None,
    search: str | None = None,
    limit: int = 100,
) -> dict[str, JSON]:
    """List notes without their text, newest change first; get_note reads one.

    Args:
        project_id: only notes of this project
        source: only notes that come from here, such as the thread of a mail
        search: words that the note contains
        limit: how many at most
    """
    equal = equals(project_id=project_id, source=source)
    notes = records.all("note", limit=clamp_limit(limit), search=search, **equal)
    return {"notes": [drop_fields(note, ["content"]) for note in notes]}


def get_note(records: Records, note_id: str) -> dict[str, JSON]:
    """One note with its text.

    Args:
        note_id: id of the note
    """
    return {"note": records.get("note", note_id)}


def create_note(
    records: Records, title: str, content: str, project_id: str = "", tags: list[str] | None = None, source: str = ""
) -> dict[str, JSON]:
    """Create a note. Look with list_notes first whether there is one already.

    Args:
        title: what it is about
        content: its text; Markdown
        project_id: the project it belongs to; empty for none
        tags: words to find it by
        source: where it comes from, such as the thread of a mail
    """
    values = {
        "title": check_title(title),
        "content": check_text(content),
        "project_id": check_project(records, project_id),
        "tags": tags or [],
        "source": check_source(source),
    }
    return {"note": records.add("note", values)}


def update_note(
    records: Records,
    note_id: str,
    title: str | None = None,
    content: str | None = None,
    project_id: str | None = None,
    tags: list[str] | None = None,
) -> dict[str, JSON]:
    """Change a note; what is not given stays as it is.

    Args:
        note_id: id of the note
        content: the whole new text
    """
    values = keep_given_values(
        title=check_given(check_title, title),
        content=check_given(check_text, content),
        project_id=check_given(partial(check_project, records), project_id),
        tags=tags,
    )
    return {"note": records.change("note", note_id, values)}
