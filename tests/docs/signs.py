"""What the documents name, and what the code has: paths, names, commands, settings and URLs."""

import ast
import functools
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from django.core.management import get_commands, load_command_class
from django.urls import URLPattern, get_resolver

ROOT = Path(__file__).resolve().parents[2]
APPS = (
    "agents", "benchmarks", "config", "connectors", "devices", "functions", "gateway", "knowledge", "plumbing", "registry", "runs", "studio",
    "supervisor", "tests",
)  # fmt: skip
FOLDERS = (*APPS, "docs", "frontend", "static", "templates", ".ci")
ENDINGS = (".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".html", ".js", ".css", ".svg", ".sh")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLACEHOLDER = re.compile(r"\{[^}]*\}|<[^>]*>|\*|…")


def spans(page: Path) -> list[str]:
    """What stands in backticks outside of code blocks; of a Python file, in its docstring."""
    text = ast.get_docstring(ast.parse(page.read_text())) or "" if page.suffix == ".py" else page.read_text()
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def shell_lines(page: Path) -> list[str]:
    """The lines of code blocks, and what stands in backticks."""
    blocks = re.findall(r"^ *```[^\n]*\n(.*?)^ *```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    \S.*$", page.read_text(), flags=re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()] + indented + spans(page)


# paths


@functools.cache
def files() -> frozenset[str]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    names = {name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()}
    return frozenset(names | {str(parent) for name in names for parent in Path(name).parents})


def is_path(span: str) -> bool:
    if not re.fullmatch(r"[\w./<>{}*-]+", span) or span.startswith("/"):
        return False
    return span.endswith(ENDINGS) or (span.endswith("/") and span.split("/")[0] in FOLDERS)


def path_exists(span: str, page: Path) -> bool:
    """From the root, from the page's folder, or (a bare name) anywhere. `<app>` and `*` stand for any name."""
    pattern = re.compile(PLACEHOLDER.sub("[^/]+", re.escape(span.rstrip("/")).replace(r"\*", "*")))
    inside = str(page.parent.relative_to(ROOT) / span.rstrip("/"))
    return (
        any(pattern.fullmatch(name) or pattern.fullmatch(name.rpartition("/")[2]) for name in files())
        or inside in files()
        or any(name.endswith("/" + span.rstrip("/")) for name in files())
        or ("/" not in span and span in code())
    )


# names in the code


@functools.cache
def code(with_tests: bool = False) -> str:
    """All source files in one text."""
    return "\n".join(
        (ROOT / name).read_text()
        for name in sorted(files())
        if name.endswith((".py", ".yaml", ".html", ".js", ".toml", ".css", "Makefile", ".ci/install"))
        and (with_tests or not name.startswith("tests/"))
    )


@functools.cache
def words(with_tests: bool = False) -> frozenset[str]:
    """Every word of the code. A name that no file has is the name of something that is not there."""
    return frozenset(WORD.findall(code(with_tests)))


@functools.cache
def members() -> dict[str, set[str]]:
    """Class or module name → the names that it defines or sets. Bases are joined in."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in (ROOT / name for name in files() if name.endswith(".py") and name.split("/")[0] in (*APPS, "client")):
        tree = ast.parse(path.read_text())
        module = path.parent.name if path.name == "__init__.py" else path.stem
        own.setdefault(module, set()).update(defined(tree.body))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set()).update(defined(node.body))
                bases.setdefault(node.name, set()).update(ast.unparse(base).rpartition(".")[2] for base in node.bases)
    return {name: inherited(name, own, bases, set()) for name in own}


def defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in (child for statement in body for child in ast.walk(statement)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr
            case ast.alias():
                yield node.asname or node.name


def inherited(name: str, own: dict[str, set[str]], bases: dict[str, set[str]], seen: set[str]) -> set[str]:
    if name in seen:
        return set()
    above = [inherited(base, own, bases, seen | {name}) for base in bases.get(name, ())]
    return own.get(name, set()).union(*above)


def dotted_exists(name: str) -> bool:
    """`runs.rules.plan`, `gateway.python`, `Agent.live_hash`, `statements.INSERT`; others by their words."""
    first, *rest = name.split(".")
    if first in APPS:
        return module_of(name) or name in code()  # a task's or a permission's name
    owner = first if first[0].isupper() else first.title().replace("_", "")
    known = members()
    if rest and first in known and first[0].isupper():
        return rest[0] in known[first] or rest[0] in DJANGO
    return all(part in words(True) for part in name.split(".") if WORD.fullmatch(part)) or (
        owner in known and rest[0] in known[owner]
    )


DJANGO = {"objects", "pk", "id"}


def call_exists(owner: str, method: str) -> bool:
    """`session.add_message(…)`: where a class or module bears the name, it must have the method."""
    known = members()
    candidates = [known[name] for name in (owner, owner.title().replace("_", "")) if name in known]
    if candidates:
        return any(method in names or method in DJANGO for names in candidates)
    return method in words()


def module_of(name: str) -> bool:
    """Whether it is a module of ours, or a name in one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        path = "/".join(parts[:cut])
        if path + ".py" in files() or path in files():
            rest = parts[cut:]
            if not rest:
                return True
            source = ROOT / (path + ".py") if path + ".py" in files() else ROOT / path / "__init__.py"
            return source.exists() and rest[0] in set(defined(ast.parse(source.read_text()).body))
    return False


# commands, settings, URLs


@functools.cache
def make_targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@functools.cache
def options(command: str) -> frozenset[str]:
    """The options of a management command; raises KeyError for one that is not there."""
    parser = load_command_class(get_commands()[command], command).create_parser("manage.py", command)
    return frozenset(option for action in parser._actions for option in action.option_strings)


def module_runs(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@functools.cache
def routes() -> list[str]:
    """Every URL of the site with `{}` for its parts that vary, and the sockets."""
    from config import asgi  # noqa: F401
    from runs.api.urls import websocket_urlpatterns

    sockets = [str(pattern.pattern) for pattern in websocket_urlpatterns]
    found = {plain(one) for one in [*walked(get_resolver().url_patterns, ""), *sockets, "ws/devices/"]}
    return sorted("/" + one.strip("/") for one in found)


def walked(patterns: list, prefix: str) -> Iterator[str]:
    for one in patterns:
        route = prefix + str(one.pattern)
        if isinstance(one, URLPattern):
            yield route
        else:
            yield from walked(one.url_patterns, route)


def plain(route: str) -> str:
    route = re.sub(r"\(\?P<[^>]+>(?:[^()]|\([^()]*\))*\)|<[^>]+>", "{}", route)
    return re.sub(r"[\^$\\]|/\?|\.\(.*$", lambda found: "/" if found.group() == "/?" else "", route)


def url_exists(url: str) -> bool:
    """`/api/v1/runs/{id}/cancel`, `agents/{name}/publish` below /api/v1/, `…/publish` as the end of one."""
    url = url.split("?")[0]
    is_end = url.startswith("…")
    if not is_end and not url.startswith("/"):
        url = "/api/v1/" + url
    parts = url.strip("…").strip("/").split("/")
    return any(leads(route.strip("/").split("/"), parts, is_end) for route in routes())


def leads(route: list[str], parts: list[str], is_end: bool) -> bool:
    """A part that varies may be told as anything, but for the last part of an end (“…/publish”)."""
    fits = len(route) == len(parts) or (is_end and len(route) > len(parts))
    pairs = list(zip(route[-len(parts) :], parts, strict=True)) if fits else []
    return (
        fits
        and all(known == told or "{}" in known for known, told in pairs)
        and (not is_end or pairs[-1][0] == parts[-1] or bool(PLACEHOLDER.search(parts[-1])))
    )
