"""Functions: files of Python on this machine, and the stored functions made of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ..errors import NotFoundError
from .app import OBJECT, REFUSED, App, json_option, pass_app, stop
from .output import compact, note, print_json, print_table, say

if TYPE_CHECKING:
    from .. import types

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass
class Draft:
    """A file as the server reads it: the function's name, and the fields that are sent."""

    name: str
    fields: dict[str, Any]


@click.group()
def functions() -> None:
    """Check, try, test, publish and run functions."""


@functions.command("list")
@click.argument("search", nargs=-1)
@click.option("-n", "--limit", default=100, show_default=True, help="At most so many.")
@json_option
@pass_app
def list_functions(app: App, search: tuple[str, ...], limit: int) -> None:
    """The functions that you can see."""
    rows = app.muster.functions.list(search=" ".join(search) or None).take(limit)
    if app.json:
        print_json(rows)
    else:
        print_table(cast("list[dict[str, Any]]", rows), ("name", "published_version", "effect", "description"))


@functions.command()
@click.argument("name")
@json_option
@pass_app
def show(app: App, name: str) -> None:
    """The source of a function."""
    row = app.muster.functions.get(name)
    print_json(row) if app.json else say(row["source"].rstrip())


@functions.command()
@click.argument("file", type=FILE)
@click.option("--entry", help="The function in the file; default: the last one.")
@json_option
@pass_app
def check(app: App, file: Path, entry: str | None) -> None:
    """Check a file as publishing would. Nothing is stored."""
    checked = check_file(app, file, entry)
    if app.json:
        print_json(checked)
    else:
        note(f"{file}: {checked['entry']} is accepted.")


@functions.command("try")
@click.argument("file", type=FILE)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--arguments", "json_arguments", type=OBJECT, help="All arguments as JSON, or @file.")
@click.option("--entry", help="The function in the file; default: the last one.")
@json_option
@pass_app
def try_file(app: App, file: Path, arguments: tuple[str, ...], json_arguments: Any, entry: str | None) -> None:
    """Run a file once in the server's sandbox. Nothing is stored.

    A VALUE is JSON where it can be, else a text: n=3 name=Ada tags='["a"]'
    """
    draft = build_draft(app, file, entry)
    body = {"name": draft.name, **draft.fields, "arguments": join_arguments(json_arguments, arguments)}
    outcome = app.muster.functions.try_draft(cast("types.TryRequest", body))
    print_execution(app, outcome)


@functions.command()
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--arguments", "json_arguments", type=OBJECT, help="All arguments as JSON, or @file.")
@click.option("--version", type=int, help="Default: the published one.")
@json_option
@pass_app
def run(app: App, name: str, arguments: tuple[str, ...], json_arguments: Any, version: int | None) -> None:
    """Run a published function."""
    outcome = app.muster.functions.execute(name, join_arguments(json_arguments, arguments), version=version)
    print_execution(app, outcome)


@functions.command()
@click.argument("target", metavar="NAME|FILE")
@click.option("--version", type=int, help="Test this version; default: the draft.")
@click.option("--entry", help="The function in the file; default: the last one.")
@json_option
@pass_app
def test(app: App, target: str, version: int | None, entry: str | None) -> None:
    """Run the stored tests of a function. A FILE is first stored as the function's draft."""
    name = target
    if target.endswith(".py"):
        name = store(app, build_draft(app, Path(target), entry))
    verdicts = app.muster.functions.run_tests(name, version=version)
    if app.json:
        print_json(verdicts)
    else:
        for result in verdicts["results"]:
            verdict = "ok    " if result["ok"] else "failed"
            say(f"{verdict} {result['test']} {result['reason']}".rstrip())
        note(f"{verdicts['passed']} passed, {verdicts['failed']} failed")
    stop(REFUSED if verdicts["failed"] else 0)


@functions.command()
@click.argument("file", type=FILE)
@click.option("--entry", help="The function in the file; default: the last one.")
@click.option("--note", "words", default="", help="What changed.")
@json_option
@pass_app
def publish(app: App, file: Path, entry: str | None, words: str) -> None:
    """Store a file as a function, run its tests, and make it live."""
    name = store(app, build_draft(app, file, entry))
    version = app.muster.functions.publish(name, note=words)
    if app.json:
        print_json({"name": name, **version})
    else:
        note(f"{name}: version {version['version']}")


def check_file(app: App, file: Path, entry: str | None) -> types.Validated:
    """What the server says of the file. Problems are printed with their lines, and end the command."""
    fields = {"source": read_source_file(file)}
    if entry:
        fields["entry"] = entry
    # The first time every import is refused, and named; the second time those that the site allows are allowed.
    first = app.muster.functions.validate(cast("types.DraftRequest", fields))
    with_imports = {**fields, "allowed_imports": first["imports"]}
    checked = app.muster.functions.validate(cast("types.DraftRequest", with_imports))
    if not checked["valid"]:
        if app.json:
            print_json(checked)
        for one in checked["refusals"]:
            note(f"{file}:{one['line']}: {one['message']} {one['hint']}".rstrip())
        stop(REFUSED)
    return checked


def build_draft(app: App, file: Path, entry: str | None) -> Draft:
    """Imports that the file names are allowed to it, as far as the site allows them."""
    checked = check_file(app, file, entry)
    fields = {"source": read_source_file(file), "entry": checked["entry"], "allowed_imports": checked["imports"]}
    name = re.sub(r"[^a-z0-9_-]+", "-", checked["entry"].lower())
    return Draft(name.strip("_-")[:64], fields)


def read_source_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: {error}") from None


def store(app: App, draft: Draft) -> str:
    """Change the function's draft, or create the function."""
    rows = app.muster.functions
    try:
        rows.update(draft.name, cast("types.PatchedFunctionRequest", draft.fields))
    except NotFoundError:
        rows.create(cast("types.FunctionRequest", {"name": draft.name, **draft.fields}))
    return draft.name


def join_arguments(from_json: dict[str, Any] | None, words: tuple[str, ...]) -> dict[str, Any]:
    """Those of `--arguments`, and the NAME=VALUE words, which win."""
    values = dict(from_json or {})
    for text in words:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"“{text}” is not NAME=VALUE.")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


def print_execution(app: App, outcome: types.Executed) -> None:
    """The result on standard output, what was printed and the error on standard error."""
    if app.json:
        print_json(outcome)
    else:
        if outcome["printed"]:
            note(outcome["printed"].rstrip())
        if error := outcome["error"]:
            where = f" in line {error['line']}" if error.get("line") else ""
            note(f"{outcome['status']}: {error['type']}: {error['message']}{where}")
        else:
            say(compact(outcome["result"]))
    stop(0 if outcome["status"] == "ok" else REFUSED)


COMMANDS = (functions,)
