"""A refusal says what to do about it."""

import ast

from django.conf import settings

from agents.exceptions import Invalid, MusterError, NotFound
from config import errors

APPS = ("agents", "config", "connectors", "devices", "functions", "gateway", "knowledge", "registry", "runs", "studio")
BY_PROTOCOL = frozenset(["A2AError"])  # its messages are those of the protocol, which has no hints


def kinds_of(error):
    for kind in error.__subclasses__():
        yield kind
        yield from kinds_of(kind)


def refusals():
    """(place, name of the class, call) of each error that is made."""
    for app in APPS:
        for path in (settings.BASE_DIR / app).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    yield f"{path.relative_to(settings.BASE_DIR)}:{node.lineno}", node.func.id, node


def test_a_refusal_says_what_to_do():
    """Errors that name a missing row or a fault in what was sent have a hint of their kind."""
    usual = {Invalid, NotFound, *kinds_of(Invalid), *kinds_of(NotFound)}
    own = {kind.__name__: kind for kind in kinds_of(MusterError) if kind not in usual} | {"Forbidden": None}
    found = [(place, call) for place, name, call in refusals() if name in own and name not in BY_PROTOCOL]
    assert len(found) > 60
    silent = [
        place
        for place, call in found
        if len(call.args) < 3 and not any(one.arg in ("hint", None) for one in call.keywords)
    ]
    assert silent == []


def test_what_has_no_hint_of_its_own_gets_that_of_its_kind():
    for error in (
        NotFound("There is none."),
        Invalid("It is wrong."),
        Invalid("It is wrong.", details=[{"code": "x"}]),
    ):
        body = errors.handle(error, {}).data["error"]
        assert body["hint"], body
    assert errors.handle(NotFound("There is none.", hint="Look again."), {}).data["error"]["hint"] == "Look again."
