"""Every cache of the product is described in docs/caches.md, and shows nobody what belongs to somebody else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "caches.md"
PACKAGES = (
    "agents", "client/muster_client", "config", "connectors", "devices", "functions", "gateway", "knowledge", "plumbing",
    "registry", "runs", "studio", "supervisor",
)  # fmt: skip
DECORATORS = frozenset(["cache", "lru_cache", "cached", "cachedmethod"])
STORES = frozenset(["Cache", "LRUCache", "OrderedDict", "TTLCache", "WeakKeyDictionary", "WeakValueDictionary"])
COLLECTIONS = frozenset(["dict", "set", "defaultdict", "deque"])
OWN_PROCESSES = "functions/sandbox/inside/"  # of one call, or of one run of one person
NAMES = re.compile(r"cache|idle|kept|known|memo|recent|remembered")
IN_BROWSERS = re.compile(r"localStorage|sessionStorage|indexedDB|caches\.open")


def name_of(node: ast.AST | None) -> str:
    """`lru_cache` of `functools.lru_cache(maxsize=1)`."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Subscript):
        return name_of(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_store(value: ast.AST | None) -> bool:
    """A cache of some kind, or a function that remembers what it returned."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Call) and remembers(value.func):
        return True
    return isinstance(value, ast.Call) and name_of(value) in STORES


def remembers(decorator: ast.AST) -> bool:
    """Whether it gives a function a cache: `cached(_live)` uses one that has a row of its own."""
    uses_another = isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Name)
    return name_of(decorator) in DECORATORS and not uses_another


def is_empty(value: ast.AST | None) -> bool:
    """A collection that is filled later."""
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, ast.Call) and name_of(value) in COLLECTIONS and not value.args and not value.keywords


def assigned(node: ast.AST) -> tuple[str, ast.AST | None]:
    """(the name that is assigned, its value)."""
    if isinstance(node, ast.AnnAssign):
        return name_of(node.target), node.value
    if isinstance(node, ast.Assign):
        return name_of(node.targets[0]), node.value
    return "", None


def caches_in(source: str) -> Iterator[str]:
    """The names of the caches that a module has."""
    tree = ast.parse(source)
    holders = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for holder in holders:
        for node in holder.body:
            name, value = assigned(node)
            if name and is_empty(value) and (holder is tree or is_shared(node)):
                yield name
    for node in ast.walk(tree):
        name, value = assigned(node)
        if name and (is_store(value) or (is_empty(value) and is_of_self(node) and NAMES.search(name))):
            yield name
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ()
        if any(map(remembers, decorators)):
            yield node.name  # type: ignore[attr-defined]
        if isinstance(node, ast.ImportFrom) and node.module == "django.core.cache":
            yield from (alias.name for alias in node.names)


def is_shared(node: ast.AST) -> bool:
    """Whether a value in the body of a class belongs to the class: not a default that each object gets."""
    return not isinstance(node, ast.AnnAssign) or name_of(node.annotation) == "ClassVar"


def is_of_self(node: ast.AST) -> bool:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return isinstance(target, ast.Attribute) and name_of(target.value) == "self"


def caches() -> set[str]:
    """`registry/factory.py: _live` and the like."""
    found = set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if "/migrations/" not in place and not place.startswith(OWN_PROCESSES):
                found |= {f"{place}: {name}" for name in caches_in(path.read_text())}
    return found | caches_of_scripts()


def caches_of_scripts() -> set[str]:
    scripts = [*(ROOT / "static" / "muster").rglob("*.js"), *(ROOT / "frontend" / "src").rglob("*.[jt]s")]
    found = set()
    for path in scripts:
        if path.parent.name != "vendor":
            place = path.relative_to(ROOT).as_posix()
            found |= {f"{place}: {name}" for name in IN_BROWSERS.findall(path.read_text())}
    return found


def described() -> set[str]:
    """The first column of the tables."""
    return set(re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE))


def test_every_cache_is_described():
    assert caches() - described() == set(), "add a row to docs/caches.md: what is its key, and whose is its value?"


def test_every_description_is_of_a_cache():
    assert described() - caches() == set()


def test_every_description_is_whole():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [row for row in rows if any(not cell.strip() for cell in row.strip("|").split("|"))] == []


@pytest.mark.parametrize(
    "source",
    [
        "_kept = {}",
        "_kept: dict[str, int] = dict()",
        "class A:\n    kept = {}",
        "class A:\n    _kept: ClassVar[dict[str, int]] = {}",
        "class A:\n    def __init__(self):\n        self.kept: dict[str, int] = {}",
        "class A:\n    def __init__(self, make):\n        self.kept = lru_cache(maxsize=3)(make)",
        "kept: 'TTLCache[str, int]' = TTLCache(3, 60)",
        "@cached(LRUCache(3), lock=Lock())\ndef kept(): ...",
        "@cache\ndef kept(): ...",
        "@functools.lru_cache(maxsize=1)\ndef kept(): ...",
        "from django.core.cache import cache as kept",
    ],
)
def test_a_cache_is_found_however_it_is_written(source):
    assert len(list(caches_in(source))) >= 1


@pytest.mark.parametrize(
    "source", ["TABLE = {1: 2}", "def f():\n    kept = {}", "class A:\n    kept: dict = {}", "@cached(a)\ndef f(): ..."]
)
def test_what_is_no_cache_is_not_found(source):
    assert list(caches_in(source)) == []
