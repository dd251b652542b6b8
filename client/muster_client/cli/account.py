"""Login, logout, whoami and shell completion."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import get_completion_class

from .. import config
from .._sync.client import Muster
from .app import App, json_option, pass_app
from .output import note, print_json, say

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.option("--url", help="The server, for example https://muster.example.org.")
@click.option("--allow-http", is_flag=True, help="Send the key without TLS to another machine.")
@pass_app
def login(app: App, url: str | None, allow_http: bool) -> None:
    """Store the address of a server and an API key, in a file that only you can read.

    The key is asked for, or read from standard input; it is never an argument, which other users of
    this machine could see. It is tried before it is stored.
    """
    address = url or app.url or click.prompt("Server", default="http://127.0.0.1:8000")
    is_terminal = sys.stdin.isatty()
    key = click.prompt("API key", hide_input=True) if is_terminal else sys.stdin.readline()
    values = config.Settings(config.check_url(address), config.check_key(key))
    if not values.api_key:
        raise click.UsageError("The API key is empty.")
    if values.is_exposed and not allow_http:
        raise click.UsageError(f"{values.url} has no TLS, so others could read the key. Use https, or --allow-http.")
    with Muster(values.url, values.api_key) as muster:
        name = muster.me()["username"]
    note(f"You are {name}. The key is stored in {config.save(values)}.")


@click.command()
def logout() -> None:
    """Delete the stored key from this machine. To revoke it, use the server."""
    note("The key was deleted." if config.forget() else "No key was stored.")


@click.command()
@json_option
@pass_app
def whoami(app: App) -> None:
    """The server, the user, and the scopes of the key."""
    me = app.muster.me()
    if app.json:
        print_json({"url": app.muster.url, **me})
        return
    say(f"{me['username']} at {app.muster.url}")
    scopes = me.get("scopes") or ["all (login session)"]
    say(f"scopes: {' '.join(scopes)}")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), default=lambda: find_shell())
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash, write this into ~/.bashrc: eval "$(muster completion bash)"
    """
    program = context.find_root().command
    kind = get_completion_class(shell)
    # There is a class for each of SHELLS.
    assert kind is not None
    click.echo(kind(program, {}, "muster", "_MUSTER_COMPLETE").source())


def find_shell() -> str:
    """The shell of the person who calls, if there is a script for it."""
    name = os.path.basename(os.environ.get("SHELL", ""))  # noqa: PTH119
    return name if name in SHELLS else "bash"


COMMANDS = (login, logout, whoami, completion)
