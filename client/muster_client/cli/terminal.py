"""The full screen, and the program for this machine as a device."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec

import click

from .._async.client import AsyncMuster
from .app import App, pass_app, stop

TO_PAIR = "It is installed by: pip install ./devices/client"


@click.command()
@click.option("--every", default=1.0, show_default=True, help="Seconds between two looks at the runs.")
@pass_app
def top(app: App, every: float) -> None:
    """A screen with your live runs, their events, and the approvals that wait for you."""
    if find_spec("textual") is None:
        raise click.ClickException("The screen needs one more package: pip install 'muster-client[tui]'")
    from ..tui.screen import Top

    Top(AsyncMuster(app.muster.url, app.muster.api_key), every=every).run()


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def device(arguments: tuple[str, ...]) -> None:
    """Pair this machine and let agents use its tools: pair, run, status, review.

    This starts the device client, a package of its own.
    """
    stop(subprocess.call([*device_client(), *arguments]))  # noqa: S603 (the person's own command line)


def device_client() -> list[str]:
    """The command of the device client. Raises ClickException if it is not installed."""
    if found := shutil.which("muster-device"):
        return [found]
    try:
        if find_spec("devices.client.__main__"):
            return [sys.executable, "-m", "devices.client"]
    except ModuleNotFoundError:
        pass
    raise click.ClickException(f"The device client is not installed. {TO_PAIR}")


COMMANDS = (top, device)
