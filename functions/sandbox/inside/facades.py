"""Import: curated copies of modules, made once in the zygote, handed out by the job's own list."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Mapping
from typing import Any

from . import modules, patched, wrapped

_facades: dict[str, types.ModuleType] = {}

# C code imports through the `__import__` of the running frame (datetime.strftime asks for time) and is known by its
# *list* fromlist; source always passes a tuple or None.
_ASKED_BY_C_CODE = frozenset({"time", "_strptime", "datetime", "collections.abc", "re", "copyreg", "_io", "decimal",
                              "math", "warnings", "zoneinfo", "_zoneinfo", "unicodedata"})  # fmt: skip


# What the offered modules import inside their functions: strptime, singledispatch, UserDict.copy, \N{…} in a pattern.
_LOADED_LATE = ("_strptime", "weakref", "copy", "unicodedata")


def preload(profile: str) -> None:
    """Load every module of the profile and make its copy; after the lock-down nothing can be loaded."""
    patched.apply()
    for name in _LOADED_LATE:
        importlib.import_module(name)
    for name in modules.offered(profile):
        _facades[name] = _copy_of(name)
    for name, facade in _facades.items():
        package, _, last = name.rpartition(".")
        if package and package in _facades:
            vars(_facades[package])[last] = facade


def _copy_of(name: str) -> types.ModuleType:
    real = importlib.import_module(name)
    facade = types.ModuleType(name)
    replaced = wrapped.REPLACED.get(name, {})
    for export in modules.EXPORTS[name]:
        if export in replaced:
            vars(facade)[export] = replaced[export]
        elif hasattr(real, export):  # a name may be newer than this Python
            vars(facade)[export] = getattr(real, export)
    for hidden in ("__spec__", "__loader__"):
        vars(facade).pop(hidden, None)
    return facade


def importer(allowed: frozenset[str]) -> Callable[..., Any]:
    """The `__import__` of one job. Each job gets copies of its own, so that nothing it sets there outlives it."""
    mine: dict[str, types.ModuleType] = {}

    def import_module(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if type(fromlist) is list and name in _ASKED_BY_C_CODE:
            return importlib.import_module(name)
        if level or not modules.allows(allowed, name) or name not in _facades:
            raise ImportError(_refusal(name))
        if name not in mine:
            mine[name] = _fresh(_facades[name])
        if fromlist or "." not in name:
            return mine[name]
        return _package(name, mine)

    return import_module


def _package(name: str, mine: dict[str, types.ModuleType]) -> types.ModuleType:
    """What `import collections.abc` binds: the package, with nothing in it but the module asked for."""
    package, _, last = name.rpartition(".")
    if package not in mine:
        source = _facades.get(package)
        mine[package] = _fresh(source) if source else types.ModuleType(package)
    vars(mine[package])[last] = mine[name]
    return mine[package]


def _fresh(facade: types.ModuleType) -> types.ModuleType:
    copy = types.ModuleType(facade.__name__)
    vars(copy).update(vars(facade))
    return copy


def _refusal(name: str) -> str:
    if name in modules.EXPORTS:
        return f"{name} is not in this function's allowed imports"
    return f"{name} cannot be imported in a function"
