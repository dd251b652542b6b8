"""The program for this machine as a device."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec

import click

from .app import stop

TO_PAIR = "It is installed by: pip install ./devices/client"


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


COMMANDS = (device,)
