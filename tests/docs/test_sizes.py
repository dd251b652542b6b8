"""Files and functions are short enough to be read at once."""

import ast

import pytest

from tests.docs.reference import APPS
from tests.docs.signs import ROOT

GENERATED = {"0001_initial.py", "types.py"}
FILE = "the file"
LINES = 400
LINES_OF_A_FUNCTION = 50


@pytest.mark.parametrize("folder", [*APPS, "benchmarks", "client", "tests"])
def test_no_file_and_no_function_is_too_long(folder):
    paths = sorted(path for path in (ROOT / folder).rglob("*.py") if path.name not in GENERATED)
    names = [(path.relative_to(ROOT), name) for path in paths for name in too_long(path.read_text())]

    assert paths
    assert [f"{path}: {name}" for path, name in names if name == FILE or folder != "tests"] == []


def too_long(source):
    if source.count("\n") > LINES:
        yield FILE
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= length(node):
            yield node.name


def length(function):
    """A docstring and a long signature are no statements."""
    docstring = function.body[0].end_lineno - function.body[0].lineno + 1 if ast.get_docstring(function) else 0
    return LINES_OF_A_FUNCTION + docstring + function.body[0].lineno - function.lineno - 1


def test_what_is_too_long_is_seen():
    body = "    pass\n" * (LINES_OF_A_FUNCTION + 1)

    assert list(too_long(f"def short():\n    pass\n\n\ndef long():\n{body}")) == ["long"]
    assert list(too_long("\n" * (LINES + 1))) == [FILE]
