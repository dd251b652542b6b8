"""`requires = ["pandas"]` in a function's header: libraries from the operator's list."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping

from .refusals import Refusals

# The libraries of frequently requested modules.
_LIBRARY_OF = {
    "bs4": "beautifulsoup4",
    "dateutil": "python-dateutil",
    "jinja2": "jinja2",
    "numpy": "numpy",
    "pandas": "pandas",
    "pydantic": "pydantic",
    "yaml": "pyyaml",
}
_SEPARATORS = re.compile(r"[-_.]+")


def read_requirements(tree: ast.Module, offered: Mapping[str, Collection[str]], refusals: Refusals) -> list[str]:
    """The libraries that the source requires, in the spelling of the operator's list. A missing one
    is refused.
    """
    names: list[str] = []
    for node in tree.body:
        for item, value in _listed(node):
            name = _SEPARATORS.sub("-", value.strip()).lower()
            if name in offered:
                names.append(name)
            else:
                refusals.add(item, "library-missing", f"the library {value} is not installed for functions",
                             how_to_add(name))  # fmt: skip
    return sorted(set(names))


def _listed(node: ast.stmt) -> list[tuple[ast.Constant, str]]:
    """The strings of `requires = ["a", "b"]`; a variable of that name with any other value is
    ignored.
    """
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.List | ast.Tuple):
        return []
    targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
    if targets != ["requires"]:
        return []
    items = []
    for item in node.value.elts:
        if not isinstance(item, ast.Constant) or not isinstance(item.value, str):
            return []
        items.append((item, item.value))
    return items


def find_library_hint(module: str, offered: Mapping[str, Collection[str]]) -> str:
    """The hint for a module of a library: how to require it or have it installed; empty for any
    other module.
    """
    top = module.partition(".")[0]
    for name, packages in offered.items():
        if top in packages:
            return f'Write requires = ["{name}"] at the top of the source.'
    return how_to_add(_LIBRARY_OF[top]) if top in _LIBRARY_OF else ""


def how_to_add(name: str) -> str:
    """The hint that tells the operator how to install the library."""
    return f"Ask the operator to add {name} to MUSTER_LIBRARIES and to run `manage.py install_libraries`."
