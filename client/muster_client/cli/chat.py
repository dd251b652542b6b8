"""Talk to an agent."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .._sync.agents import Conversation
from .app import App, json_option, pass_app, stop
from .output import note
from .watching import Watcher


@click.command()
@click.argument("agent")
@click.argument("message", nargs=-1)
@click.option("--session", help="Continue this conversation.")
@click.option("--version", type=int, help="A version of the agent; default: the live one.")
@click.option("--file", "files", type=click.Path(exists=True, dir_okay=False, path_type=Path), multiple=True,
              help="Attach a text file.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print the reply alone.")
@click.option("--cancel-on-interrupt", is_flag=True, help="Ctrl-C also stops the run.")
@json_option
@pass_app
def chat(
    app: App,
    agent: str,
    message: tuple[str, ...],
    session: str | None,
    version: int | None,
    files: tuple[Path, ...],
    quiet: bool,
    cancel_on_interrupt: bool,
) -> None:
    """Talk to AGENT; `-` lets the router choose one.

    With a MESSAGE, or with one on standard input, the reply is printed and the program ends. Without
    one, each line is a message and Ctrl-D ends. The reply goes to standard output, tool calls and
    questions to standard error.
    """
    talk = open_conversation(app, agent, session)
    watcher = Watcher(app.muster, json=app.json, is_quiet=quiet, cancels=cancel_on_interrupt)
    if message:
        stop(send(talk, watcher, join_files(" ".join(message), files), version))
    elif not sys.stdin.isatty():
        stop(send(talk, watcher, join_files(sys.stdin.read(), files), version))
    else:
        converse(talk, watcher, agent, version)


def open_conversation(app: App, agent: str, session: str | None) -> Conversation:
    if agent == "-":
        return app.muster.conversation(session)
    return app.muster.agent(agent).conversation(session)


def send(talk: Conversation, watcher: Watcher, text: str, version: int | None) -> int:
    """The exit code."""
    message = talk.message(text, version=version)
    return watcher.watch(message.stream())


def converse(talk: Conversation, watcher: Watcher, agent: str, version: int | None) -> None:
    note(f"Talking to {agent}. Ctrl-D ends, Ctrl-C stops watching a run.")
    while True:
        try:
            text = click.prompt(">", prompt_suffix=" ", err=True)
        except (click.Abort, EOFError):
            break
        send(talk, watcher, text, version)
    if talk.session:
        note(f"\nTo continue: muster chat {agent} --session {talk.session}")


def join_files(text: str, files: tuple[Path, ...]) -> str:
    parts = [text]
    for file in files:
        parts.append(f"{file.name}:\n{file.read_text()}")
    return "\n\n".join(parts)


COMMANDS = (chat,)
