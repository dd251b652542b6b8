"""Names of variables say what they hold: `found`, `given` and `asked` could hold anything."""

import ast

import pytest

from tests.docs.reference import APPS
from tests.docs.signs import ROOT

VAGUE = {"asked", "found", "given", "known", "left", "made", "said", "taken", "told", "wanted"}
OPTIONS = {  # `asked`: what a message asks for, as the column `options` of its run names it
    "runs/calls/executor.py",
    "runs/intake/children.py",
    "runs/intake/messages.py",
}


def assigned(tree):
    """The variables and parameters of functions, with their lines. Fields of classes may be those of an API."""
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    for node in {inner for function in functions for inner in ast.walk(function)}:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


@pytest.mark.parametrize("app", [*APPS, "benchmarks", "client"])
def test_no_variable_has_a_vague_name(app):
    paths = sorted((ROOT / app).rglob("*.py"))

    assert paths
    assert [f"{path.relative_to(ROOT)}:{line} {name}" for path in paths for name, line in vague(path)] == []


def vague(path):
    names = list(assigned(ast.parse(path.read_text())))
    sides = {"left"} if "right" in {name for name, _ in names} else set()
    options = {"asked"} if str(path.relative_to(ROOT)) in OPTIONS else set()
    return [(name, line) for name, line in names if name in VAGUE - sides - options]


def test_a_vague_name_is_seen():
    source = "def look(known):\n    if found := known:\n        return found"

    assert {name for name, _ in assigned(ast.parse(source))} & VAGUE == {"found", "known"}
