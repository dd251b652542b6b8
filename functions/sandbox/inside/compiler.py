"""Compiles a source: returns refusals or bytecode. Runs in a limited child, as one kilobyte of
source can need gigabytes.
"""

from __future__ import annotations

import ast
import base64
import json
import marshal
import unicodedata  # noqa: F401 - the parser loads it late, for \N{…} and for names beyond ASCII
from typing import Any

from functions.annotations import make_readers

from . import modules, policy, requirements, unknown
from .refusals import Refusals

FILENAME = "<function>"
_BUILT_IN_CODECS = {"utf-8", "utf8", "utf_8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "strict"}
MAX_SOURCE_BYTES = 64 * 1024


def answer(order: dict[str, Any]) -> bytes:
    """The reply frame for one compile job: refusals, or the bytecode with information about the
    entry.
    """
    source: str = order["source"]
    refusals = Refusals()
    tree = _parse(source, refusals)
    guards = _main_guards(tree)
    if guards:
        source = _without(source, [*guards, *_find_guard_imports(guards, tree)])
        tree = _parse(source, refusals)
    if tree is None:
        return json.dumps({"refusals": refusals.rows}).encode()
    try:
        facts = _facts(tree, order, refusals)
        _refuse_unknown(tree, source, order, refusals, _find_bound_names(guards))
        required = requirements.read_requirements(tree, order["libraries"], refusals)
        facts["requires"] = required
        if order["safe_mode"]:
            tree = policy.apply_policy(tree, frozenset(order["imports"]), order["libraries"], required, refusals)
        return _finish(tree, facts, refusals)
    except RecursionError:
        refusals.add(None, "too-deep", "the source is nested too deeply", "Split it into smaller functions.")
    except MemoryError:
        refusals.add(
            None, "too-large", "the source needs too much memory to compile", "Split it into smaller functions."
        )
    return json.dumps({"refusals": refusals.rows}).encode()


def _find_bound_names(nodes: list[ast.stmt]) -> set[str]:
    """The names that only the removed guard assigns. A function that uses them is accepted as long
    as it is not called.
    """
    names: set[str] = set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names.add(part.id)
    return names


def _refuse_unknown(tree: ast.Module, source: str, order: dict[str, Any], refusals: Refusals, also: set[str]) -> None:
    try:
        unknown.refuse_unknown(tree, source, safe_mode=order["safe_mode"], refusals=refusals, also=also)
    except SyntaxError as error:  # the symbol table detects errors that the parser accepts
        refusals.add_syntax_error(error)


_EVERYTHING = """
import re
class A:
    x: int = 1
async def main(a, *, b=2):
    return [f'{i!r:>3}' for i in a], '\\N{DIGIT ONE}'
"""


def warm_up() -> None:
    """Compile one example of each important construct, so that the first real compile finds
    everything loaded.
    """
    order = {"source": _EVERYTHING, "entry": "main", "imports": ["re"], "expect": {}, "libraries": {}}
    for safe_mode in (True, False):
        answer({**order, "safe_mode": safe_mode})


def _parse(source: str, refusals: Refusals) -> ast.Module | None:
    size = len(source.encode("utf-8", "replace"))
    if size > MAX_SOURCE_BYTES:
        hint = f"The maximum is {MAX_SOURCE_BYTES} bytes. Split it into functions that call each other with ctx.call()."
        refusals.add(None, "too-large", f"the source has {size} bytes", hint)
        return None
    try:
        return ast.parse(source, FILENAME)
    except SyntaxError as error:
        refusals.add_syntax_error(error)
    except (ValueError, UnicodeError) as error:
        refusals.add(None, "syntax", str(error), "Remove NUL characters and unpaired surrogates.")
    except (RecursionError, MemoryError):
        refusals.add(None, "too-deep", "the source is nested too deeply", "Split it into smaller functions.")
    return None


def _main_guards(tree: ast.Module | None) -> list[ast.stmt]:
    """The statements `if __name__ == "__main__":`, which are never true here."""
    if tree is None:
        return []
    return [node for node in tree.body if isinstance(node, ast.If) and _is_main_guard(node)]


def _find_guard_imports(guards: list[ast.stmt], tree: ast.Module | None) -> list[ast.stmt]:
    """Top-level imports, such as `import doctest`, that only the guard uses."""
    if tree is None:
        return []
    rest = [node for node in tree.body if node not in guards]
    used_by_guards_alone = _find_used_names(guards) - _find_used_names(rest)
    imports: list[ast.stmt] = []
    for node in rest:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        # `import os.path` binds `os`.
        bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if bound <= used_by_guards_alone:
            imports.append(node)
    return imports


def _find_used_names(nodes: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        names.update(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
    return names


def _without(source: str, nodes: list[ast.stmt]) -> str:
    """The source with blank lines in place of the removed statements."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for node in nodes:
        end = node.end_lineno or node.lineno
        for number in range(node.lineno - 1, end):
            lines[number] = ""
    return "\n".join(lines)


def _is_main_guard(node: ast.If) -> bool:
    if node.orelse:
        return False
    condition = ast.unparse(node.test).replace('"', "'")
    return condition == "__name__ == '__main__'"


def _facts(tree: ast.Module, order: dict[str, Any], refusals: Refusals) -> dict[str, Any]:
    """The kind of the entry function and the profile that its imports require; mismatches become
    refusals.
    """
    entry = _entry(tree, order["entry"])
    if entry is None:
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        hint = (
            f"Defined here: {', '.join(defined)}." if defined else f"Write `def {order['entry']}(…):` at the top level."
        )
        refusals.add(None, "no-entry", f"there is no top-level function named {order['entry']}", hint)
        return {}
    names = [argument.arg for argument in (*entry.args.posonlyargs, *entry.args.args, *entry.args.kwonlyargs)]
    is_async = isinstance(entry, ast.AsyncFunctionDef)
    if entry.args.vararg:
        message = f"*{entry.args.vararg.arg} takes arguments without a name, but arguments are passed by name"
        refusals.add(entry.args.vararg, "nameless-arguments", message, f"Write a list: {entry.args.vararg.arg}: list.")
    readers = make_readers(entry, tree)
    _pass_by_name(entry)
    _compare(entry, order.get("expect") or {}, is_async, names, refusals)
    wants_more = any(isinstance(node, ast.AsyncFunctionDef) or _names_codec(node) for node in ast.walk(tree))
    profile = modules.EXTENDED if wants_more or not order["safe_mode"] else modules.choose_profile(_imported(tree))
    return {"is_async": is_async, "takes_ctx": "ctx" in names, "profile": profile, "readers": readers}


def _pass_by_name(entry: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Arguments arrive by name, so positional-only parameters of the entry become ordinary ones."""
    entry.args.args = [*entry.args.posonlyargs, *entry.args.args]
    entry.args.posonlyargs = []


def _names_codec(node: ast.AST) -> bool:
    """Whether the call names a codec that the interpreter does not have built in:
    `text.encode("cp1252")`, `raw.decode(charset)`, `str(raw, charset)`.
    """
    if not isinstance(node, ast.Call):
        return False
    keywords = [keyword.value for keyword in node.keywords if keyword.arg == "encoding"]
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("encode", "decode"):
        named = [*node.args[:1], *keywords]
    elif isinstance(node.func, ast.Name) and node.func.id in ("str", "bytes", "bytearray"):
        named = [*node.args[1:2], *keywords]
    else:
        return False
    return any(not isinstance(one, ast.Constant) or str(one.value).lower() not in _BUILT_IN_CODECS for one in named)


def _entry(tree: ast.Module, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    return None


def _compare(entry: Any, expect: dict[str, Any], is_async: bool, names: list[str], refusals: Refusals) -> None:
    if expect.get("is_async") is not None and expect["is_async"] != is_async:
        word = "async" if is_async else "not async"
        refusals.add(entry, "async-flag", f"{entry.name} is {word}, but the function's flag says otherwise",
                     "Change the flag or the `def`.")  # fmt: skip
    if expect.get("requires_context") is not None and expect["requires_context"] != ("ctx" in names):
        if expect["requires_context"]:
            refusals.add(entry, "no-ctx", f"{entry.name} has no parameter `ctx`, but requires_context is set",
                         f"Write `def {entry.name}(…, ctx):` or clear requires_context.")  # fmt: skip
        else:
            refusals.add(entry, "ctx-not-required", f"{entry.name} has a parameter `ctx`, but "
                "requires_context is not set",
                         "Set requires_context or remove the parameter.")  # fmt: skip
    _compare_schema(entry, expect.get("input_schema"), names, refusals)


def _compare_schema(entry: Any, schema: Any, names: list[str], refusals: Refusals) -> None:
    if not isinstance(schema, dict) or not isinstance(schema.get("properties", {}), dict):
        return
    properties = set(schema.get("properties", {}))
    if entry.args.kwarg is None:
        for extra in sorted(properties - set(names)):
            refusals.add(entry, "signature", f"the input schema has {extra!r}, but {entry.name} has no such parameter",
                         f"Add the parameter {extra}, or remove it from the schema.")  # fmt: skip
    required = schema.get("required")
    always_given = set(required) if isinstance(required, list) else set()
    for missing in sorted(_needed(entry) - always_given - {"ctx"}):
        refusals.add(entry, "signature", f"{entry.name} requires {missing!r}, but the input schema does not",
                     f"Give {missing} a default, or add it to `required`.")  # fmt: skip


def _needed(entry: Any) -> set[str]:
    arguments = entry.args
    positional = [*arguments.posonlyargs, *arguments.args]
    # The defaults are those of the last positional parameters.
    needed = positional[: len(positional) - len(arguments.defaults)]
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None:
            needed.append(arg)
    return {arg.arg for arg in needed}


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            # What is imported from a package may be a module.
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _finish(tree: ast.Module, facts: dict[str, Any], refusals: Refusals) -> bytes:
    code = None
    try:
        code = compile(tree, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:  # errors that the parser accepts, such as `return` outside a function
        refusals.add_syntax_error(error)
    except ValueError as error:
        if not refusals.rows:
            # Otherwise the policy removed a refused statement and left an empty block.
            refusals.add(None, "syntax", str(error), "Simplify the source.")
    if refusals.rows or code is None:
        return json.dumps({"refusals": refusals.sorted_rows()}).encode()
    bytecode = base64.b64encode(marshal.dumps(code)).decode()
    return json.dumps({"refusals": [], "bytecode": bytecode} | facts).encode()
