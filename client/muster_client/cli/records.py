"""Records: see, edit, approve and reject what agents suggest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import click

from .app import OBJECT, App, json_option, pass_app
from .output import compact, note, print_json, print_table, say

KINDS = click.Choice(["tasks", "notes", "timelines", "projects", "comments"])


@click.group()
def records() -> None:
    """Review what agents keep for you. The key needs the scope records:write to decide."""


@records.command("list")
@click.argument("kind", type=KINDS, required=False)
@click.option("--waiting", is_flag=True, help="Only what waits for your decision.")
@click.option("--search", help="Only records with these words.")
@click.option("-n", "--limit", default=100, show_default=True, help="At most so many.")
@json_option
@pass_app
def list_records(app: App, kind: str | None, waiting: bool, search: str | None, limit: int) -> None:
    """Your records, newest first."""
    rows = app.muster.records.list(kind or "", waiting=waiting or None, search=search).take(limit)
    if app.json:
        print_json(rows)
        return
    lines = []
    for row in rows:
        title = compact(get_record_title(row), 80)
        lines.append({**row, "text": title})
    print_table(lines, ("kind", "id", "review", "text", "updated_at"))


@records.command()
@click.argument("kind", type=KINDS)
@click.argument("id")
@json_option
@pass_app
def show(app: App, kind: str, id: str) -> None:
    """The whole content of a record."""
    row = app.muster.records.get(kind, id)
    if app.json:
        print_json(row)
        return
    for field, value in row.items():
        if value not in (None, "", [], {}):
            words = value if isinstance(value, str) else compact(value)
            say(f"{field + ':':20}{words}")


@records.command()
@click.argument("kind", type=KINDS)
@click.argument("id")
@click.argument("changes", type=OBJECT)
@pass_app
def edit(app: App, kind: str, id: str, changes: dict[str, Any]) -> None:
    """Change fields: a JSON object, or @file."""
    print_review(app.muster.records.update(kind, id, changes))


@records.command()
@click.argument("kind", type=KINDS)
@click.argument("id", nargs=-1, required=True)
@pass_app
def approve(app: App, kind: str, id: tuple[str, ...]) -> None:
    """Approve suggestions, or carry out suggested changes."""
    for one in id:
        print_review(app.muster.records.approve(kind, one))


@records.command()
@click.argument("kind", type=KINDS)
@click.argument("id", nargs=-1, required=True)
@click.option("--reason", default="", help="Kept with the record; agents do not suggest it again.")
@pass_app
def reject(app: App, kind: str, id: tuple[str, ...], reason: str) -> None:
    """Reject suggestions, or refuse suggested changes."""
    for one in id:
        print_review(app.muster.records.reject(kind, one, reason=reason))


def get_record_title(row: Mapping[str, Any]) -> str:
    """Each kind of record has its own field for what it says first."""
    for field in ("title", "name", "text", "content"):
        if row.get(field):
            return str(row[field])
    return ""


def print_review(row: Any) -> None:
    record = cast("Mapping[str, Any]", row)
    note(f"{record['kind']} {record['id']}: {record['review']}")


COMMANDS = (records,)
