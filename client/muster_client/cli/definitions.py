"""Definitions in files: agents, functions, skills, collections, tools, providers and chains as YAML."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .app import App, json_option, pass_app
from .output import note, print_json, say

KINDS = ("provider", "function", "skill", "collection", "tool", "agent", "chain")


@click.command()
@click.argument("path", type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option("--plan", is_flag=True, help="Show the changes without making them.")
@json_option
@pass_app
def apply(app: App, path: Path, plan: bool) -> None:
    """Make your rows as the YAML files say, and publish them: all of them, or none.

    PATH is a file, a folder with .yaml and .yml files, or - for standard input.
    """
    definitions = app.muster.definitions
    text = read_definition_texts(path)
    changes = definitions.plan(text) if plan else definitions.apply(text)
    if app.json:
        print_json(changes)
        return
    for one in changes:
        fields = f" ({', '.join(one['fields'])})" if one["fields"] else ""
        say(f"{one['verb']:8} {one['kind']} {one['name']}{fields}")
    count = sum(one["verb"] != "same" for one in changes)
    note(f"{count} would be written" if plan else f"{count} written")


def read_definition_texts(path: Path) -> str:
    """The documents of all files as one text."""
    if str(path) == "-":
        return sys.stdin.read()
    if path.is_file():
        return path.read_text(encoding="utf-8")
    named = [file for file in path.rglob("*") if file.suffix in (".yaml", ".yml")]
    files = sorted(file for file in named if file.is_file())
    if not files:
        raise click.ClickException(f"{path} has no .yaml file.")
    return "\n---\n".join(file.read_text(encoding="utf-8") for file in files)


@click.command()
@click.argument("path", type=click.Path(allow_dash=True, path_type=Path), default="-")
@click.option("--kind", type=click.Choice(KINDS), help="One kind alone.")
@pass_app
def export(app: App, path: Path, kind: str | None) -> None:
    """Write your rows as YAML into a file, or to standard output. Secrets are never included."""
    text = app.muster.definitions.export(kind=kind)
    if str(path) == "-":
        say(text, end="")
    else:
        path.write_text(text, encoding="utf-8")
        note(f"Written to {path}.")


COMMANDS = (apply, export)
