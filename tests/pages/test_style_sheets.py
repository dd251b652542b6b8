"""A class has one meaning: two components whose style sheets style one name draw on each other where both are loaded."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

STATIC = Path(__file__).resolve().parents[2] / "static"
BASE = "muster/app.css"
# Classes that a component's sheet adds to on purpose: the element is the same one in both.
SHARED = {
    "ask": "a question of a run, in a conversation too",
    "chain": "the drawing of a run's chain; the editor's drawing has a stripe of this name inside of its own",
    "code-editor": "the editor of code: the page reserves its room before its script is loaded",
    "composer": "the field in which a message is written",
    "quiet": "what is said or offered quietly",
    "say-verbs": "the buttons below a message",
    "talking": "the body of a page with a conversation",
}


def sheets() -> dict[str, str]:
    found = {}
    for path in sorted(STATIC.rglob("*.css")):
        if "vendor" not in path.parts:
            found[str(path.relative_to(STATIC))] = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    return found


def selectors_in(sheet: str) -> list[str]:
    heads = [head for head in re.findall(r"([^{}]+)\{", sheet) if not head.strip().startswith("@")]
    return [part.strip() for head in heads for part in head.split(",") if part.strip()]


def root_class(selector: str) -> str:
    """`picker` of `.picker li`: a name that this sheet takes for itself, wherever it stands in a page."""
    match = re.match(r"\.([A-Za-z_][\w-]*)(?![\w.-])", selector)
    return match[1] if match else ""


def clashes(found: dict[str, str]) -> dict[str, set[str]]:
    """The classes that one sheet takes for itself and another one takes or, between components, only names."""
    owners, users = defaultdict(set), defaultdict(set)
    for name, sheet in found.items():
        for selector in selectors_in(sheet):
            owners[root_class(selector)].add(name)
            for used in re.findall(r"\.([A-Za-z_][\w-]*)", selector):
                users[used].add(name)
    owners.pop("", None)
    wrong = {}
    for name, places in owners.items():
        others = users[name] - {BASE} if places - {BASE} else places
        if len(places | others) > 1:
            wrong[name] = places | others
    return wrong


def test_no_class_is_styled_by_two_components():
    wrong = {name: places for name, places in clashes(sheets()).items() if name not in SHARED}
    assert wrong == {}, "give the class a name of its component, or say in SHARED why it is one thing"


def test_every_shared_class_is_still_shared():
    assert set(SHARED) <= set(clashes(sheets()))


@pytest.mark.parametrize("second", [".picker ul { top: 0 }", "@media (width < 1px) { a, .picker { top: 0 } }"])
def test_a_name_that_is_taken_twice_is_found(second):
    assert set(clashes({"a.css": ".picker { bottom: 100% }", "b.css": second, BASE: ".card { top: 0 }"})) == {"picker"}
