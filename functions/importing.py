"""Imports Python files as stored functions: finds the functions of a file and creates the working
row of each.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from functions import sandbox
from functions.models import StoredFunction
from functions.reading import read_signature
from functions.signature import Function, SourceProblem, parse_source


def list_python_files(path: Path) -> list[Path]:
    """The file itself, or every Python file below a folder except tests and hidden folders."""
    if path.is_file():
        return [path]
    files = sorted(path.rglob("*.py"))
    return [file for file in files if not any(is_left_out(part) for part in file.relative_to(path).parts)]


def is_left_out(part: str) -> bool:
    return part.startswith((".", "test_")) or part in ("tests", "__pycache__", "__init__.py", "conftest.py", "setup.py")


def list_offered_functions(source: str) -> list[str]:
    """The functions that a module offers: those in `__all__`, else its public functions that no
    other of its functions calls.

    Raises SourceProblem.
    """
    module = parse_source(source)
    functions = {node.name: node for node in module.body if isinstance(node, Function)}
    listed = [name for name in read_all_names(module) if name in functions]
    if listed:
        return listed
    called = {name for node in functions.values() for name in names_used(node) - {node.name}}
    public = [name for name in functions if not name.startswith("_")]
    entries = [name for name in public if name not in called] or public[-1:]
    if not entries:
        raise SourceProblem(
            "no_entry",
            "The file has no public function.",
            "Add a function whose name does not begin with an underscore.",
        )
    return entries


def read_all_names(module: ast.Module) -> list[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            try:
                return [str(name) for name in ast.literal_eval(node.value)]
            except (ValueError, TypeError):
                return []
    return []


def names_used(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def without_all(source: str) -> str:
    """The source with `__all__` blanked out, as stored code is not a module with exports. Line
    numbers do not change.
    """
    lines = source.splitlines(keepends=True)
    for node in parse_source(source).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = "\n"
    return "".join(lines)


def build_function_rows(file: Path, owner: Any) -> Iterator[StoredFunction]:
    """A working row for each function of the file: an existing row with the new source, or a new
    one.

    Raises SourceProblem. Imports are allowed if the sandbox offers them.
    """
    source = file.read_text()
    entries = list_offered_functions(source)
    plain = without_all(source)
    for entry in entries:
        name = slug(entry)
        row = StoredFunction.objects.filter(owner=owner, name=name).first() or StoredFunction(owner=owner, name=name)
        if row.source != plain:
            row.input_schema, row.description = {}, ""
        row.source, row.entry = plain, entry
        imports = (one for module in read_signature(plain, entry).imports for one in (module, module.partition(".")[0]))
        row.allowed_imports = sorted(
            {name for name in imports if name in sandbox.IMPORTABLE} | set(row.allowed_imports)
        )
        yield row


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("_-")[:64]
