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
    files = []
    for file in sorted(path.rglob("*.py")):
        parts = file.relative_to(path).parts
        if not any(map(is_left_out, parts)):
            files.append(file)
    return files


def is_left_out(part: str) -> bool:
    if part.startswith((".", "test_")):
        return True
    return part in ("tests", "__pycache__", "__init__.py", "conftest.py", "setup.py")


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
    called: set[str] = set()
    for node in functions.values():
        # A function that calls itself is still an entry.
        called |= names_used(node) - {node.name}
    public = [name for name in functions if not name.startswith("_")]
    if not public:
        raise SourceProblem(
            "no_entry",
            "The file has no public function.",
            "Add a function whose name does not begin with an underscore.",
        )
    entries = [name for name in public if name not in called]
    # Where they call each other in a circle, the last one stands for all.
    return entries or public[-1:]


def read_all_names(module: ast.Module) -> list[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and is_list_of_names(node):
            try:
                return [str(name) for name in ast.literal_eval(node.value)]
            except (ValueError, TypeError):
                return []
    return []


def is_list_of_names(node: ast.Assign) -> bool:
    """Whether it is `__all__ = …`."""
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)


def names_used(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def without_all(source: str) -> str:
    """The source with `__all__` blanked out, as stored code is not a module with exports. Line
    numbers do not change.
    """
    lines = source.splitlines(keepends=True)
    for node in parse_source(source).body:
        if not isinstance(node, ast.Assign) or not is_list_of_names(node):
            continue
        end = node.end_lineno or node.lineno
        for number in range(node.lineno - 1, end):
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
        row = StoredFunction.objects.filter(owner=owner, name=name).first()
        if row is None:
            row = StoredFunction(owner=owner, name=name)
        if row.source != plain:
            # Both are derived anew from the new source.
            row.input_schema = {}
            row.description = ""
        row.source = plain
        row.entry = entry
        imports = set(row.allowed_imports)
        for module in read_signature(plain, entry).imports:
            package, _, _ = module.partition(".")
            imports.update(name for name in (module, package) if name in sandbox.IMPORTABLE)
        row.allowed_imports = sorted(imports)
        yield row


def slug(name: str) -> str:
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower())
    return plain.strip("_-")[:64]
