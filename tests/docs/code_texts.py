"""Collects the English texts of the code that `plumbing/texts.py` translates where they are shown, into `code.po`.

All texts that are given to an error are collected; in the modules of `WHOLE`, everything that reads like a text.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polib
import yaml

ROOT = Path(__file__).resolve().parents[2]
APPS = (
    "agents",
    "connectors",
    "devices",
    "functions",
    "knowledge",
    "plumbing",
    "registry",
    "runs",
    "studio",
    "gateway",
)
IN_ENGLISH = (  # protocols of programs, commands, and what only a model or a log gets
    "management/", "migrations/", "devices/client/", "functions/sandbox/", "connectors/mcp/", "gateway/langgraph/",
    "gateway/openai/", "gateway/mcp/", "gateway/a2a/", "gateway/agui/", "gateway/python", "devices/wire.py",
    "devices/protocol.py", "devices/consumers.py", "devices/package.py", "runs/remembering/", "registry/llm/offline", "plumbing/untrusted/parse_in_child", "plumbing/sockets",
)  # fmt: skip
OTHER_ERRORS = frozenset(
    """
    ValueError TypeError RuntimeError KeyError LookupError OSError TimeoutError FileNotFoundError PermissionError
    ImproperlyConfigured NotImplementedError AssertionError CommandError RetryTool BadFrame ParseError ImportError
    OperationalError Cancelled Away Unreached McpFailed HttpRefused NotSent Undeliverable SkipField BadSignature
    """.split()  # noqa: SIM905 (read as a text)
)
READERS = "answer kinds mail office opendocument pages pdf plain report sheets slides word".split()  # noqa: SIM905
LETTERS = ("invitations", "left_out", "markup", "reading")
WHOLE = (
    "agents/graph.py", "agents/mapping.py", "agents/unknown.py", "agents/schema.py", "agents/schema_rules.py",
    "agents/available_models.py", "functions/checks.py", "functions/reading.py", "functions/signature.py",
    "functions/sandbox/compiling.py", "functions/sandbox/inside/names.py", "functions/sandbox/inside/policy.py",
    "functions/sandbox/inside/compiler.py", "functions/sandbox/inside/unknown.py",
    "functions/sandbox/inside/requirements.py",
    *(f"functions/sandbox/inside/documents/{name}.py" for name in READERS),
    *(f"functions/sandbox/inside/letters/{name}.py" for name in LETTERS), "connectors/remote.py", "plumbing/http/failures.py", "plumbing/untrusted/openapi.py",
    "runs/chains/advance.py",
    "runs/chains/calls.py", "runs/chains/children.py", "runs/chains/fanout.py", "runs/chains/steps.py",
    "runs/models/figures/anomalies.py", "runs/models/figures/dashboard.py", "runs/intake/checks.py", "runs/queue/budgets.py",
    "runs/queue/endings.py", "runs/queue/workers.py", "runs/loop/agent.py", "runs/loop/conversation.py",
    "runs/loop/facts.py", "runs/models/budget.py", "runs/rules/policy.py", "runs/rules/provenance.py",
    "runs/rules/stuck.py", "runs/rules/timing.py", "runs/schedules/occurrences.py", "runs/schedules/triggers.py",
    "runs/worker/recovery.py", "runs/worker/runner.py", "runs/api/consumers.py", "agents/http/deferred_response.py",
)  # fmt: skip
TO_MODELS = frozenset(["HumanMessage", "SystemMessage", "AIMessage"])
MARKED = frozenset(["_", "gettext", "later", "known", "ngettext"])
SILENT = ("log.", "re.", "os.", "serializers.", "models.", "OpenApi", "extend_schema", "inline_", "Signal", "getattr")
DESCRIBED = ("agent", "chain")  # starters that people choose by their description
WORDS = ("field", "parameter", "variable", "tool")  # what `unknown_names` looks for
WORD = re.compile(r"[A-Za-z’']{2,}")
PLACE = re.compile(r"%\(\w+\)s")


def collected() -> dict[str, list[str]]:
    """{text: the files that it is in}"""
    places: dict[str, list[str]] = {word: ["agents/unknown.py"] for word in WORDS}
    modules = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    for path in sorted(modules):
        name = str(path.relative_to(ROOT))
        if not is_read(name):
            continue
        for text in set(iterate_texts(path.read_text(), whole=name in WHOLE)):
            places.setdefault(text, []).append(name)
    for path in sorted((ROOT / "agents" / "starters").glob("*.yaml")):
        name = str(path.relative_to(ROOT))
        for definition in yaml.safe_load_all(path.read_text()):
            if definition["kind"] in DESCRIBED:
                places.setdefault(definition["description"], []).append(name)
    return places


def is_read(name: str) -> bool:
    return name in WHOLE or not any(part in name for part in IN_ENGLISH)


def iterate_texts(source: str, *, whole: bool) -> Iterator[str]:
    """The texts of a module: all of them, or those that are given to errors."""
    tree = ast.parse(source)
    if whole:
        yield from within(tree)
        return
    for node in ast.walk(tree):
        call = find_error_call(node)
        if call is None or named(call.func) in OTHER_ERRORS:
            continue
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            yield from within(argument)


def find_error_call(node: ast.AST) -> ast.Call | None:
    """The call that builds the error: of `raise Invalid("…")`, or of `refuse_…("…")` wherever it stands."""
    if isinstance(node, ast.Raise):
        return node.exc if isinstance(node.exc, ast.Call) else None
    if isinstance(node, ast.Call) and named(node.func).startswith("refuse"):
        return node
    return None


def within(node: ast.AST) -> Iterator[str]:
    """The texts below this node that are not marked for translation there."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Call) and is_silent(node):
        return
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        text = template(node)
        if is_text(text):
            yield text
        return
    for below in ast.iter_child_nodes(node):
        yield from within(below)


def is_silent(call: ast.Call) -> bool:
    """Whether the texts of a call are collected elsewhere, or are for no person."""
    name = named(call.func)
    return name in MARKED or name in TO_MODELS or ast.unparse(call.func).startswith(SILENT)


def is_text(text: str) -> bool:
    """Whether people could read it: two words at least, in one line."""
    literal = PLACE.sub("¤", text)
    return (
        len(text) < 400
        and len(WORD.findall(literal)) > 1
        and " " in literal.strip()
        and "\n" not in text
        and not text.startswith("__")
    )


def template(node: ast.JoinedStr | ast.Constant) -> str:
    """f"“{step.key}” needs {self.name()}." → “%(key)s” needs %(name)s."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    text, seen = "", Counter[str]()
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            seen[name := named(part.value)] += 1
            text += f"%({name}{seen[name] if seen[name] > 1 else ''})s"
        else:
            text += str(part.value).replace("%", "%%")  # type: ignore[attr-defined]
    return text if seen else text.replace("%%", "%")


def named(node: ast.AST) -> str:
    """The name of a value: `limits` of `len(self.limits[:3])`."""
    match node:
        case ast.Attribute():
            return node.attr.strip("_")
        case ast.Name():
            return node.id.strip("_") or node.id
        case ast.Call(func=ast.Attribute(attr="join"), args=[given, *_]) | ast.Call(func=ast.Name(), args=[given, *_]):
            return named(given)
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner) | ast.BinOp(left=inner):
            return named(inner)
        case ast.GeneratorExp(elt=inner) | ast.BoolOp(values=[inner, *_]) | ast.IfExp(body=inner):
            return named(inner)
    return "value"


def everything() -> dict[str, list[str]]:
    """With the names of models, their fields and choices, that no message file of pages has (needs Django's setup)."""
    from config.names import names

    pages = {entry.msgid for entry in polib.pofile(str(ROOT / "locale/de/LC_MESSAGES/django.po"))}
    places = collected()
    for name in map(str, names()):
        if name and name not in pages:
            places.setdefault(name, ["config/names.py"])
    return places


def merge(path: Path) -> None:
    """New texts are added, texts that are gone are removed, translations are kept."""
    translations: dict[str, str] = {}
    if path.exists():
        translations = {entry.msgid: entry.msgstr for entry in polib.pofile(str(path))}
    catalog = polib.POFile(wrapwidth=100)
    catalog.metadata = {
        "Project-Id-Version": "Muster", "Language": path.parts[-3], "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8", "Content-Transfer-Encoding": "8bit",
    }  # fmt: skip
    catalog.header = "Texts of the code, translated where they are shown. `make messages` collects and compiles them."
    for text, files in sorted(everything().items()):
        flags = ["python-format"] if PLACE.search(text) else []
        occurrences = [(name, "") for name in files]  # without lines, which change with every commit
        entry = polib.POEntry(msgid=text, msgstr=translations.get(text, ""), occurrences=occurrences, flags=flags)
        catalog.append(entry)
    catalog.save(str(path))
