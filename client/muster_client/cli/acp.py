"""`muster acp`: agents of the server inside editors that start a program and speak the Agent Client Protocol."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import click

from .._async.client import AsyncMuster
from .app import App, pass_app


@click.command("acp")
@click.option("--agent", help="Begin with this agent; default: the router chooses one.")
@pass_app
def acp(app: App, agent: str | None) -> None:
    """An ACP agent on stdin and stdout, for Zed, JetBrains and other editors.

    In the editor's settings: command `muster`, argument `acp`.
    """
    if find_spec("acp") is None:
        raise click.ClickException("Editors need one more package: pip install 'muster-client[acp]'")
    from .editor import serve

    asyncio.run(serve(AsyncMuster(app.url), agent))


COMMANDS = (acp,)
