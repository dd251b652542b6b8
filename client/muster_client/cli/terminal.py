"""The full screen, and the program for this machine as a device."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from .._async.client import AsyncMuster
from .app import App, pass_app, stop

CHECKOUT = Path(__file__).resolve().parents[3]
TO_PAIR = "It is installed by: pip install ./devices/client"


@click.command()
@click.option("--every", default=1.0, show_default=True, help="Seconds between two looks at the runs.")
@pass_app
def top(app: App, every: float) -> None:
    """A screen with your live runs, their events, and the approvals that wait for you."""
    if find_spec("textual") is None:
        raise click.ClickException("The screen needs one more package: pip install 'muster-client[tui]'")
    from ..tui.screen import Top

    muster = AsyncMuster(app.muster.url, app.muster.api_key)
    Top(muster, every=every).run()


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def device(arguments: tuple[str, ...]) -> None:
    """Pair this machine and let agents use its tools: pair, run, status, review.

    This starts the device client, a package of its own.
    """
    command, environment = find_device_client()
    exit_code = subprocess.call(  # noqa: S603 (the person's own)
        [*command, *arguments], env={**os.environ, **environment}
    )
    stop(exit_code)


def find_device_client() -> tuple[list[str], dict[str, str]]:
    """The device client's command and what it needs in the environment: as a package of its own, or
    in the checkout that this file belongs to. Raises ClickException if there is none.
    """
    if path := shutil.which("muster-device"):
        return [path], {}
    if (CHECKOUT / "devices" / "client" / "__main__.py").is_file():
        return [sys.executable, "-m", "devices.client"], {"PYTHONPATH": str(CHECKOUT)}
    raise click.ClickException(f"The device client is not installed. {TO_PAIR}")


COMMANDS = (top, device)
