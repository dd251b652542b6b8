"""Names that a source uses and nobody defines: told when it is stored, not when it is first run."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator

from .guards import SAFE_BUILTINS
from .policy import FORBIDDEN_NAMES
from .refusals import Refusals

_GIVEN = frozenset({"__name__", "__doc__", "__debug__", "CallFailed", "HttpResponse", "__class__"})


def refuse_unknown(tree: ast.Module, source: str, *, safe_mode: bool, refusals: Refusals) -> None:
    """Add a refusal for every name that no scope, builtin or import provides."""
    table = symtable.symtable(source, "<function>", "exec")
    known = _GIVEN | _assigned_at_module_level(table) | (SAFE_BUILTINS.keys() if safe_mode else set(dir(builtins)))
    reads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for name, line in _global_reads(table):
        if name in known or (safe_mode and name in FORBIDDEN_NAMES and name not in ("exit", "quit", "help")):
            continue
        node = next((read for read in reads if read.id == name and read.lineno >= line), None)
        hint = FORBIDDEN_NAMES.get(name) or _hint(name)
        refusals.add(node, "unknown-name", f"{name} is not defined", hint)


def _hint(name: str) -> str:
    if hasattr(builtins, name):
        return "This builtin is not available in a function."
    return "Define it, import it, or take it as an argument."


def _assigned_at_module_level(table: symtable.SymbolTable) -> set[str]:
    assigned = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    for inner in _all_tables(table):
        assigned |= {s.get_name() for s in inner.get_symbols() if s.is_declared_global() and s.is_assigned()}
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
