"""What docs/reference/ must describe, read from the code. `make reference` writes the pages anew; a test compares.

Settings, commands, endpoints, error codes and event types; the words come from comments, help texts and docstrings.
"""

import argparse
import ast
import json
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from client import generate

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"
APPS = (
    "agents",
    "functions",
    "connectors",
    "devices",
    "knowledge",
    "registry",
    "runs",
    "studio",
    "gateway",
    "supervisor",
    "config",
    "plumbing",
)
KEPT = {
    "SECRET_KEY": "signs login sessions",
    "MUSTER_FIELD_KEYS": "encrypt secrets in the database; comma-separated, newest first (`rotate_secrets`)",
}
STATUS = {
    "Forbidden": 403, "NotFound": 404, "Conflict": 409, "PreconditionFailed": 412, "TooLarge": 413, "Invalid": 422, "RateLimited": 429,
    "Unavailable": 503,
}  # fmt: skip


def settings() -> list[tuple[str, str, str, str]]:
    """(name, type, default, meaning) of every variable that config/settings/ reads."""
    variables = {}
    for path in sorted((ROOT / "config" / "settings").glob("*.py")):
        for row in iterate_variables(path.read_text()):
            variables[row[0]] = row
    return [row for _, row in sorted(variables.items())]


def iterate_variables(source: str) -> Iterator[tuple[str, str, str, str]]:
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if is_reader(node) and isinstance(node.args[0], ast.Constant):
            keywords = {word.arg: word.value for word in node.keywords}
            default = ast.unparse(keywords["default"]) if "default" in keywords else ""
            meaning = find_comment(lines, node.lineno, node.end_lineno)
            yield node.args[0].value, node.func.attr, default, meaning
    for name in re.findall(r'kept_secret\("(\w+)"\)', source):
        yield name, "str", "made once, kept in the data directory", KEPT[name]


def is_reader(node: ast.AST) -> bool:
    """Whether it reads a variable: `env.bool("MUSTER_DEBUG", default=False)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
    )


def find_comment(lines: list[str], number: int, end: int) -> str:
    """The comment on the line, else the comment right above its statement or above the group it stands in."""
    closing = [line for line in lines[end : end + 1] if line.strip().startswith(")")]  # of a wrapped call
    for line in [*lines[number - 1 : end], *closing]:
        if match := re.search(r"  # (?!noqa|type)(.*)$", line):
            return match.group(1)
    at = number - 2
    while at >= 0 and ("env." in lines[at] or lines[at].rstrip().endswith(("{", "("))):
        at -= 1
    above: list[str] = []
    while at >= 0 and lines[at].strip().startswith("# "):
        above.insert(0, lines[at].strip()[2:])
        at -= 1
    return " ".join(above)


def commands() -> list[tuple[str, str]]:
    """(name, help) of every management command of ours."""
    from django.core.management import get_commands, load_command_class

    rows = []
    for name, app in sorted(get_commands().items()):
        if app in APPS:
            rows.append((name, load_command_class(app, name).help))
    return rows


def endpoints() -> list[tuple[str, str, str]]:
    """(path, methods, meaning) of every path under /api/v1/ and beside it."""
    from drf_spectacular.generators import SchemaGenerator

    schema = SchemaGenerator().get_schema(request=None, public=True)
    rows = [
        ("/healthz", "GET", "Answers 200 if this process works."),
        ("/readyz", "GET", "Answers 200 if database, broker and sandbox work, or 503 with what does not."),
        ("/metrics", "GET", "Metrics for Prometheus; for requests from this machine, or with a superuser's key."),
        ("/api/schema/", "GET", "OpenAPI 3.1."),
        ("/api/docs/", "GET", "The API documentation, to read and to try."),
        *websockets(),
    ]
    for path, operations in sorted(schema["paths"].items()):
        # Beside its operations, a path has parameters and a summary.
        verbs = {verb: one for verb, one in operations.items() if isinstance(one, dict) and "responses" in one}
        descriptions = [one["description"] for one in verbs.values() if one.get("description")]
        meaning = first_sentence(descriptions[0]) if descriptions else ""
        rows.append((path, " ".join(verbs).upper(), meaning))
    return rows


def websockets() -> list[tuple[str, str, str]]:
    from runs.api.urls import websocket_urlpatterns

    rows = []
    for one in websocket_urlpatterns:
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(one.pattern))  # as OpenAPI writes it
        docstring = one.callback.consumer_class.__doc__ or ""
        rows.append((f"/{path}", "WebSocket", first_sentence(docstring)))
    return rows


def codes() -> list[tuple[str, str, str]]:
    """(code, status, an example of its message) of every error."""
    from config.errors import WORDS

    rows: dict[str, tuple[str, str]] = {}
    for path in list_modules():
        for name, status, message in iterate_codes(ast.parse(path.read_text())):
            # A code may be raised in several places: the first with a message is the example.
            if name not in rows or not rows[name][1]:
                rows[name] = (status, message)
    for kind, (name, _) in WORDS.items():
        rows.setdefault(name, (str(kind.status_code), str(kind.default_detail)))
    return [(name, *row) for name, row in sorted(rows.items())]


def list_modules() -> list[Path]:
    """The modules of the apps, without migrations."""
    paths = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    return sorted(path for path in paths if "migrations" not in path.parts)


def iterate_codes(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from iterate_call_codes(node)
        if isinstance(node, ast.ClassDef):
            code = find_class_value(node, "code")
            if isinstance(code, ast.Constant) and code.value:
                status = find_class_value(node, "status")
                written = ast.unparse(status) if status else ""
                yield code.value, written, first_sentence(ast.get_docstring(node) or "")


def iterate_call_codes(node: ast.Call) -> Iterator[tuple[str, str, str]]:
    """The code of an error that is built here: `Conflict("…", code="in_use")`."""
    kind = getattr(node.func, "id", getattr(node.func, "attr", ""))
    keywords = {word.arg: word.value for word in node.keywords}
    code = keywords.get("code")
    is_class = kind[:1].isupper()
    if is_class and isinstance(code, ast.Constant) and isinstance(code.value, str) and code.value:
        message = read_text(node.args[0]) if node.args else ""
        yield code.value, str(STATUS.get(kind, "")), message
    match node.args if kind == "answer" else ():  # as config/errors.py writes it
        case [_, ast.Constant(value=status), ast.Constant(value=code), message, *_]:
            yield str(code), str(status), read_text(message)


def find_class_value(node: ast.ClassDef, name: str) -> ast.expr | None:
    """What a class assigns to this attribute."""
    for line in node.body:
        if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == name:
            return line.value
    return None


def read_text(node: ast.AST) -> str:
    """A text of the code; what is put into it is “…”."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return ""


def events() -> list[tuple[str, str]]:
    from runs.events.record import TYPES

    return sorted(TYPES.items())


def options() -> list[tuple[str, str, str, str, str]]:
    """(kind.name, type, default, where it takes effect, meaning) of every option of a definition."""
    from agents.models import Agent, AgentSpec, Chain, Hook, Provider, Tool
    from agents.models.options import find_control, find_options, versioned_options
    from agents.spec import ChainSpec
    from functions.models import StoredFunction
    from functions.spec import FunctionSpec
    from runs.models import Schedule, Trigger

    rows = []
    for kind, model, spec in (
        ("agent", Agent, AgentSpec),
        ("chain", Chain, ChainSpec),
        ("function", StoredFunction, FunctionSpec),
        ("provider", Provider, None),
        ("tool", Tool, None),
        ("hook", Hook, None),
        ("schedule", Schedule, None),
        ("trigger", Trigger, None),
    ):
        frozen = {} if spec is None else versioned_options(model, spec)
        for name, column in find_options(model).items():
            option = column.option
            is_frozen = name in frozen or (frozen and column.is_relation)
            effect = "when it is published" if is_frozen else "at once"
            if option.since > 1:
                effect += f", since format {option.since}"
            type_in_words = describe_type(find_control(column), column)
            meaning = str(option.help or column.help_text or option.rest.get("help_text", ""))
            rows.append((f"{kind}.{name}", type_in_words, format_default(column.get_default()), effect, meaning))
    return rows


def format_default(value: Any) -> str:
    if value in (None, "", [], {}):
        return ""
    return f"`{json.dumps(value)}`"


def describe_type(kind: str, column: Any) -> str:
    """The type of an option in words, with its choices."""
    if kind == "choice":
        return ", ".join(f"`{value}`" for value in dict(column.choices))
    words = {
        "number": "number",
        "flag": "true or false",
        "lines": "list of texts",
        "schema": "JSON Schema",
        "json": "object",
    }
    return words.get(kind, "text")


def files() -> list[tuple[str, str]]:
    """(path, first sentence of its docstring) of every module of ours that has one."""
    rows = []
    for path in list_modules():
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        if docstring:
            rows.append((str(path.relative_to(ROOT)), docstring.splitlines()[0]))
    return rows


def first_sentence(text: str) -> str:
    line = " ".join(text.split())
    return re.split(r"(?<=\.)\s", line, maxsplit=1)[0]


def table(title: str, text: str, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [table_line(head), table_line(("---",) * len(head))]
    for first, *others in rows:
        lines.append(table_line((f"`{first}`", *others)))
    written = "\n".join(lines)
    return f"# {title}\n\n{text} Written by `make reference`.\n\n{written}\n"


def table_line(cells: tuple[Any, ...]) -> str:
    texts = [str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells]
    return f"| {' | '.join(texts)} |"


@lru_cache(maxsize=1)
def pages() -> dict[str, str]:
    """File name → its text."""
    return {
        "settings.md": table(
            "Settings",
            "Muster reads these environment variables when it starts (`config/settings/`).",
            ("variable", "type", "default", "meaning"),
            [(name, kind, f"`{default}`" if default else "", text) for name, kind, default, text in settings()],
        ),
        "commands.md": table(
            "Commands",
            "`.venv/bin/python manage.py COMMAND --help` shows the options of a command.",
            ("command", "meaning"),
            commands(),
        ),
        "endpoints.md": table(
            "Endpoints",
            "On a running server, `/api/docs/` shows the fields, parameters and errors of every endpoint, to read and to "
            "try; `/api/schema/` has the same as OpenAPI 3.1. A field or a parameter that does not exist gets 422 "
            "(`unknown_field`, `unknown_parameter`), at every depth of a body, with the name that was probably meant or "
            "all names. You may send back a row as a GET request returned it.",
            ("path", "methods", "meaning"),
            endpoints(),
        ),
        "errors.md": table(
            "Error codes",
            'An error answer is `{"error": {"code", "message", "hint", "details", "request_id"}}`. These are the values of '
            "`code`, in the error itself, in one of its details, or in the error of a run.",
            ("code", "status", "example of a message"),
            codes(),
        ),
        "options.md": table(
            "Options",
            "The options of agents, chains, functions, providers, tools, hooks, schedules and triggers. They have these names in REST, in definition files and in versions.",
            ("option", "type", "default", "takes effect", "meaning"),
            options(),
        ),
        "files.md": table(
            "Source files", "Every source file with the first line of its docstring.", ("file", "purpose"), files()
        ),
        "events.md": table(
            "Run events",
            "Muster sends these events at `/api/v1/runs/{id}/events`, in the run's event stream and on its WebSocket.",
            ("type", "meaning"),
            events(),
        ),
    }


def client() -> dict[Path, str]:
    """What is generated in client/: the synchronous half, and the types of this API."""
    from drf_spectacular.generators import SchemaGenerator

    schema = json.loads(json.dumps(SchemaGenerator().get_schema(request=None, public=True), default=str))
    return {**generate.sync_sources(), generate.PACKAGE / "types.py": generate.types_source(schema)}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)
    generate.write(client())


if __name__ == "__main__":
    main()
