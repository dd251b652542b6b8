"""The client stands alone: it imports nothing of the server, and the server nothing of it (a contract in pyproject.toml)."""

import ast
import sys

import pytest

from tests.docs.reference import ROOT

PACKAGE = ROOT / "client" / "muster_client"
ALLOWED = {"anyio", "httpx", "httpx_sse", "typing_extensions"}
FOR_THE_TERMINAL = {"acp", "click", "rich", "textual"}


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_module_of_the_client_imports_its_declared_dependencies_alone(file):
    imported = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported |= {one.name.split(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.add(node.module.split(".")[0])

    in_terminal = file.relative_to(PACKAGE).parts[0] in ("cli", "tui", "__main__.py")
    assert imported - sys.stdlib_module_names <= ALLOWED | (FOR_THE_TERMINAL if in_terminal else set())
