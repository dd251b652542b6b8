"""What commands print: text for a person, tab-separated lines for a pipe, JSON for a program."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

# What a terminal would obey, and marks that reorder a line: texts of models and tools must do neither.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STYLES = {
    "succeeded": "green", "running": "cyan", "waiting": "yellow", "queued": "blue", "failed": "red",
    "expired": "red", "cancelled": "magenta", "partial": "yellow", "open": "yellow",
}  # fmt: skip
Row = Mapping[str, Any]


def clean(value: Any) -> str:
    """A text without control characters but line ends and tabs."""
    return CONTROLS.sub("", str(value).replace("\r\n", "\n"))


def line(value: Any, width: int = 0) -> str:
    """The same in one line, shortened if a width is given."""
    text = " ".join(clean(value).split())
    if width and len(text) > width:
        return text[: width - 1] + "…"
    return text


def compact(value: Any, width: int = 0) -> str:
    """JSON in one line."""
    # A text without quotes: people read this, and programs take --json.
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return line(text, width)


def say(text: str = "", *, end: str = "\n", style: str = "") -> None:
    """To standard output, without control characters; coloured if it is a terminal."""
    shown = clean(text)
    if style and sys.stdout.isatty():
        shown = click.style(shown, fg=style)
    click.echo(shown, nl=False)
    click.echo(end, nl=False)
    if not end.endswith("\n"):
        sys.stdout.flush()


def note(text: str) -> None:
    """To standard error: what a program that reads the output must not see."""
    click.echo(clean(text), err=True)


def print_json(value: Any, *, lines: bool = False) -> None:
    """Indented, or in one line for outputs of many values."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if lines else 2))


def print_table(rows: Iterable[Row], columns: Sequence[str]) -> None:
    """A table in a terminal; else one line for each row with tabs between the columns."""
    if not sys.stdout.isatty():
        for row in rows:
            cells = [line(format_cell(row.get(name))) for name in columns]
            click.echo("\t".join(cells))
        return
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        grid.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        texts = [line(format_cell(row.get(name)), 80) for name in columns]
        grid.add_row(*map(style_status, texts))
    if grid.row_count:
        Console().print(grid)
    else:
        note("Nothing found.")


def style_status(text: str) -> Text:
    return Text(text, style=STYLES.get(text, ""))


def format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
