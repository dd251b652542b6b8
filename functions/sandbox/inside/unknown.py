"""Finds names that a source uses but does not define, when it is stored rather than when it first
runs.

Scopes are respected: the author can have a parameter called `input` or a variable called `id`.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Collection, Iterator

from .guards import SAFE_BUILTINS
from .refusals import Refusals

FORBIDDEN_NAMES = {
    "exec": "Write the code directly, or choose between functions in a dict.",
    "eval": "Use json.loads() or ast.literal_eval() for data, or write the expression directly.",
    "compile": "Write the code directly. For a pattern use re.compile().",
    "open": "Functions have no files. Pass the text as an argument; io.StringIO(text) reads like a file.",
    "input": "Functions have no console. Use an argument.",
    "globals": "Pass what you need as an argument.",
    "locals": "Name the variables explicitly.",
    "breakpoint": "Use print().",
    "__import__": "Use an import statement.",
    "exit": "Use return.",
    "quit": "Use return.",
    "help": "Use print().",
}
_GIVEN = frozenset({"__name__", "__doc__", "__debug__", "CallFailed", "Context", "HttpResponse", "__class__"})


def refuse_unknown(
    tree: ast.Module, source: str, *, safe_mode: bool, refusals: Refusals, also: Collection[str] = ()
) -> None:
    """Add a refusal for every name that is not in a scope, a builtin, an import or `also`."""
    table = symtable.symtable(source, "<function>", "exec")
    names = (
        _GIVEN.union(also)
        | _assigned_at_module_level(table)
        | (SAFE_BUILTINS.keys() if safe_mode else set(dir(builtins)))
    )
    reads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for name, line in _global_reads(table):
        if name in names:
            continue
        node = next((read for read in reads if read.id == name and read.lineno >= line), None)
        if name in FORBIDDEN_NAMES:
            refusals.add(node, "not-allowed", f"{name} is not available in a function", FORBIDDEN_NAMES[name])
        else:
            refusals.add(node, "unknown-name", f"{name} is not defined", _hint(name))


def _hint(name: str) -> str:
    if hasattr(builtins, name):
        return "This builtin is not available in a function."
    return "Define it, import it, or make it a parameter."


def _assigned_at_module_level(table: symtable.SymbolTable) -> set[str]:
    assigned = set()
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            assigned.add(symbol.get_name())
    # By `global` in a function.
    for inner in _all_tables(table):
        for symbol in inner.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                assigned.add(symbol.get_name())
    return assigned


def _global_reads(table: symtable.SymbolTable) -> Iterator[tuple[str, int]]:
    for scope in _all_tables(table):
        is_module = scope.get_type() == "module"
        for symbol in scope.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or (is_module and not symbol.is_assigned())):
                yield symbol.get_name(), scope.get_lineno()


def _all_tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from _all_tables(inner)
