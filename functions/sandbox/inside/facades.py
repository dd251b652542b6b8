"""Import: restricted copies of modules, created once in the zygote and offered according to the
job's list of imports.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from . import conversions, modules, patched, wrapped

_facades: dict[str, types.ModuleType] = {}
_libraries: set[str] = set()

# C code imports through the `__import__` of the running frame (datetime.strftime imports time). It passes fromlist
# as a *list*; source always passes a tuple or None.
_ASKED_BY_C_CODE = frozenset({"time", "_strptime", "datetime", "collections.abc", "re", "copyreg", "_io", "decimal",
                              "math", "warnings", "zoneinfo", "_zoneinfo", "unicodedata"})  # fmt: skip


# Imports that the offered modules make inside functions: strptime, singledispatch, UserDict.copy, \N{…} in a pattern.
_LOADED_LATE = ("_strptime", "weakref", "copy", "unicodedata")


def preload(profile: str, libraries: tuple[str, ...] = ()) -> None:
    """Load every module of the profile and create its copy; after the lock-down nothing can be
    loaded.
    """
    patched.apply_patches(with_libraries=bool(libraries))
    for name in _LOADED_LATE:
        importlib.import_module(name)
    replaced = wrapped.REPLACED
    if profile == modules.EXTENDED:
        from . import wrapped_extended

        patched.apply_to_extended(with_libraries=bool(libraries))
        replaced = replaced | wrapped_extended.REPLACED
    for name in modules.list_profile_modules(profile):
        _facades[name] = _copy_module(name, replaced.get(name, {}))
    for name, facade in _facades.items():
        package, _, last = name.rpartition(".")
        if package in _facades:
            vars(_facades[package])[last] = facade
    if libraries:
        from . import packages

        _facades.update(packages.load_packages(libraries))
        _libraries.update(libraries)
    conversions.learn()


def exports(module: str) -> dict[str, Any]:
    """What functions may import from the module; empty if this profile does not offer it."""
    if module not in _facades:
        return {}
    return vars(_facades[module])


def refuse_files(profile: str) -> None:
    """From now on the offered modules open no file, such as a log, a configuration or a document."""
    patched.refuse_conversions()
    for name in modules.list_profile_modules(profile):
        patched.refuse_files(importlib.import_module(name))


def _copy_module(name: str, replaced: Mapping[str, Any]) -> types.ModuleType:
    real = importlib.import_module(name)
    facade = types.ModuleType(name)
    for export in modules.EXPORTS[name]:
        if export in replaced:
            vars(facade)[export] = replaced[export]
        elif hasattr(real, export):  # a name may not exist in this Python version yet
            vars(facade)[export] = getattr(real, export)
    for hidden in ("__spec__", "__loader__"):
        vars(facade).pop(hidden, None)
    vars(facade)["__getattr__"] = _explain(name)
    return facade


def _explain(module: str) -> Callable[[str], Any]:
    def explain(name: str) -> Any:
        hint = "" if name.startswith("__") else f": {modules.hint_for_name(module, name)}"
        raise AttributeError(f"{module}.{name} is not available in a function{hint}")

    return explain


def importer(allowed: frozenset[str], *, is_kept: bool) -> Callable[..., Any]:
    """The `__import__` of one job. In a child that is kept for several jobs, each job has its own
    copies, so that its changes do not outlive it; otherwise the child ends with the job, and a copy
    would only cost memory.
    """
    mine: dict[str, types.ModuleType] = {}

    def import_module(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if type(fromlist) is list and (name in _ASKED_BY_C_CODE or name.partition(".")[0] in _libraries):
            return importlib.import_module(name)
        within = [f"{name}.{one}" for one in fromlist or () if f"{name}.{one}" in _facades]
        if level or not (is_offered(name) or (within and len(within) == len(fromlist))):
            raise ImportError(_refusal(name))
        for inner in within:
            if is_offered(inner):
                _bind(inner, mine, is_kept)
        module = _bind(name, mine, is_kept)
        return module if fromlist else mine[name.partition(".")[0]]

    def is_offered(name: str) -> bool:
        return name in _facades and modules.allows(allowed, name)

    return import_module


def _bind(name: str, mine: dict[str, types.ModuleType], is_kept: bool) -> types.ModuleType:
    """This job's copy of a module, and the packages around it, which contain only the requested
    modules.
    """
    if name not in mine:
        facade = _facades.get(name)
        if facade is None:
            # A package that offers nothing by itself.
            mine[name] = types.ModuleType(name)
        elif is_kept or name == "sys":
            # Each job has its own output streams, which are in `sys`.
            mine[name] = _fresh(facade)
        else:
            mine[name] = facade
    package, _, last = name.rpartition(".")
    if package:
        vars(_bind(package, mine, is_kept))[last] = mine[name]
    return mine[name]


def _fresh(facade: types.ModuleType) -> types.ModuleType:
    copy = types.ModuleType(facade.__name__)
    vars(copy).update(vars(facade))
    if facade.__name__ == "sys":
        vars(copy).update(stdout=sys.stdout, stderr=sys.stdout)
    return copy


def _refusal(name: str) -> str:
    if name in modules.EXPORTS:
        return f"{name} is not in this function's allowed imports"
    return f"{name} cannot be imported in a function"
