"""Agents and tools."""

from __future__ import annotations

from itertools import islice

import click

from .app import App, json_option, pass_app
from .output import compact, note, print_json, print_table, say


@click.group()
def agents() -> None:
    """List, show and publish agents."""


@agents.command("list")
@click.option("-n", "--limit", default=100, show_default=True, help="At most so many.")
@json_option
@pass_app
def list_agents(app: App, limit: int) -> None:
    """The agents that you can see."""
    rows = app.muster.agents.list().take(limit)
    if app.json:
        print_json(rows)
    else:
        print_table(rows, ("name", "provider", "model_name", "published_version", "description"))


@agents.command()
@click.argument("name")
@json_option
@pass_app
def show(app: App, name: str) -> None:
    """The working row of an agent."""
    row = app.muster.agents.get(name)
    if app.json:
        print_json(row)
        return
    for field, value in row.items():
        if value not in (None, "", [], {}) and field != "system_prompt":
            say(f"{field + ':':20}{compact(value)}")
    say(f"\n{row.get('system_prompt', '')}".rstrip())


@agents.command()
@click.argument("name")
@click.option("--note", "words", default="", help="What changed.")
@pass_app
def publish(app: App, name: str, words: str) -> None:
    """Make the working row live as a version."""
    published = app.muster.agents.publish(name, note=words)
    note(f"{name}: version {published['version']}")


@agents.command()
@click.argument("name")
@click.argument("version", type=int)
@pass_app
def rollback(app: App, name: str, version: int) -> None:
    """Make an earlier version live again."""
    published = app.muster.agents.rollback(name, version)
    note(f"{name}: version {published['version']}")


@click.command()
@click.argument("search", nargs=-1)
@click.option("--kind", help="function, agent, connector, device, mcp, http or builtin.")
@click.option("-n", "--limit", default=100, show_default=True, help="At most so many.")
@json_option
@pass_app
def tools(app: App, search: tuple[str, ...], kind: str | None, limit: int) -> None:
    """The tools that agents can be granted."""
    pages = app.muster.tools.list(search=" ".join(search) or None, kind=kind)
    rows = list(islice(pages, limit))
    if app.json:
        print_json(rows)
    else:
        print_table(rows, ("name", "kind", "effect", "description"))


COMMANDS = (agents, tools)
