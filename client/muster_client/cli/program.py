"""`muster`: the commands, and what their failures print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from .._version import __version__
from ..errors import APIConnectionError, APIError, ConfigurationError, MusterError
from . import account, acp, chat, definitions, functions, mcp, records, rows, runs, terminal
from .app import INTERRUPTED, NO_SERVER, REFUSED, App
from .output import note

EPILOG = (
    "Exit codes: 0 success, 1 refused, 2 wrong usage, 3 the run did not succeed, 4 no server or no key, "
    "5 the run waits for a person, 130 interrupted."
)


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--url", envvar="MUSTER_URL", help="The server; default: MUSTER_URL, or what `muster login` stored.")
@click.version_option(__version__, prog_name="muster")
@click.pass_context
def muster(context: click.Context, url: str | None) -> None:
    """Talk to agents, watch runs, decide approvals, and keep definitions in files.

    The key is read from MUSTER_API_KEY, or from the file that `muster login` writes.
    """
    context.obj = App(url=url)


for command in (
    *account.COMMANDS, *chat.COMMANDS, *runs.COMMANDS, *rows.COMMANDS, *records.COMMANDS, *functions.COMMANDS,
    *definitions.COMMANDS, *terminal.COMMANDS, *mcp.COMMANDS, *acp.COMMANDS,
):  # fmt: skip
    muster.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """The exit code. Errors are printed to standard error."""
    try:
        return int(muster.main(list(arguments), prog_name="muster", standalone_mode=False) or 0)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        note("")
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has enough
        # Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MusterError as error:
        return print_failure(error)


def print_failure(error: MusterError) -> int:
    note(f"muster: {error}")
    if isinstance(error, APIError) and error.status >= 500 and error.request_id:
        note(f"  request {error.request_id}")
    return NO_SERVER if isinstance(error, APIConnectionError | ConfigurationError) else REFUSED
