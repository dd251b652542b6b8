"""JSON that is nested deeply raises RecursionError, which is no ValueError: who reads JSON of others catches both."""

import ast

from tests.docs.reference import APPS, ROOT

OWN = {  # what they read, Muster has written itself
    "devices/client/home.py", "devices/client/review.py", "functions/sandbox/forkserver.py",
    "functions/sandbox/libraries.py", "functions/sandbox/selftest.py", "gateway/openai/summaries.py",
}  # fmt: skip


def reads_json(node: ast.AST) -> bool:
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute))
    return any(ast.unparse(call.func) == "json.loads" or call.func.attr == "raw_decode" for call in calls)


def caught(handler: ast.ExceptHandler) -> set[str]:
    return {one.id for one in ast.walk(handler.type) if isinstance(one, ast.Name)} if handler.type else set()


def test_deep_nesting_is_caught_wherever_broken_json_is():
    faults = set()
    for path in (path for app in APPS for path in (ROOT / app).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Try) or not any(map(reads_json, node.body)):
                continue
            names = set().union(*map(caught, node.handlers))
            if "ValueError" in names and not names & {"RecursionError", "Exception"}:
                faults.add(str(path.relative_to(ROOT)))
    assert faults == OWN
