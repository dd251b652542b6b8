"""What all commands share: the client, the options, the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .._sync.client import Muster

REFUSED, RUN_FAILED, NO_SERVER, WAITS = 1, 3, 4, 5
INTERRUPTED = 130
if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class App:
    """`muster` is connected when it is first used."""

    url: str | None = None
    json: bool = False

    @cached_property
    def muster(self) -> Muster:
        return Muster(self.url)


pass_app = click.make_pass_decorator(App, ensure=True)


def json_option(command: Command) -> Command:
    """`--json` after any command."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(App).json = True

    words = "Print JSON: one value, or one a line where there are many over time."
    add_option = click.option("--json", is_flag=True, expose_value=False, callback=remember, help=words)
    return add_option(command)


class JsonText(ParamType):
    """A JSON object on the command line, or `@file` to read it from a file."""

    name = "json"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            text = click.open_file(value[1:]).read() if value.startswith("@") else value
            document = json.loads(text)
        except (OSError, ValueError) as error:
            self.fail(f"{value[:60]}: {error}", parameter, context)
        if not isinstance(document, dict):
            self.fail("write a JSON object, for example '{\"a\": 1}'", parameter, context)
        return document


OBJECT = JsonText()


def stop(code: int) -> None:
    """End the command with this exit code."""
    raise click.exceptions.Exit(code)
