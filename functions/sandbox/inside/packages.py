"""Libraries in a fork server: completely loaded before the lock-down, and offered as copies without
their own imports.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
import types
import warnings
from collections.abc import Iterable, Iterator

_LEFT_OUT = frozenset(
    {"tests", "testing", "conftest", "__main__", "f2py", "distutils", "setup", "mypy", "_pyinstaller"}
)


def load_packages(names: Iterable[str]) -> dict[str, types.ModuleType]:
    """Copies of all their modules by name. All loadable modules are loaded now, as nothing can be
    loaded later.
    """
    chosen = tuple(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in chosen:
            for module in _iterate_modules(name):
                _try(module)
    if "numpy" in chosen:
        # otherwise all children would draw the same random numbers
        os.register_at_fork(after_in_child=sys.modules["numpy"].random.seed)
    _warm_up(chosen)
    return _copies(chosen)


def _iterate_modules(name: str) -> Iterator[str]:
    package = importlib.import_module(name)
    yield name
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{name}.", onerror=lambda name: None):
        if not _LEFT_OUT.intersection(module.name.split(".")):
            yield module.name


def _try(name: str) -> None:
    try:
        with contextlib.redirect_stdout(None):
            # Some print when they are loaded.
            importlib.import_module(name)
    except BaseException:  # noqa: BLE001 - what needs another library, or another system, is not there
        sys.modules.pop(name, None)


def _copies(chosen: tuple[str, ...]) -> dict[str, types.ModuleType]:
    mine = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in chosen}
    copies = {name: types.ModuleType(name) for name in mine}
    for name, module in mine.items():
        for key in {*vars(module), *_public(module)}:
            value = getattr(module, key, None)
            if isinstance(value, types.ModuleType):
                if value.__name__ in copies and not key.startswith("_"):
                    vars(copies[name])[key] = copies[value.__name__]
            elif not key.startswith("_") or key == "__version__":
                vars(copies[name])[key] = value
    return copies


def _public(module: types.ModuleType) -> list[str]:
    """The public names of a module. Reading them triggers what some packages load lazily."""
    names = vars(module).get("__all__", ())
    return [name for name in names if _has(module, name)]


def _has(module: types.ModuleType, name: str) -> bool:
    try:
        return hasattr(module, name)
    except BaseException:  # noqa: BLE001 - it would need another library
        return False


def _warm_up(chosen: tuple[str, ...]) -> None:
    """Trigger the initialisation that a library does on first use, so that each child need not
    repeat it.
    """
    if "pandas" in chosen:
        import io

        import pandas  # type: ignore[import-untyped, unused-ignore]

        frame = pandas.read_csv(io.StringIO("a,b,c\n1,x,2024-01-01\n2,y,2024-01-02\n"), parse_dates=["c"])
        frame.groupby("b")["a"].agg(["sum", "mean"]).reset_index().merge(frame, on="b").sort_values("a").describe()
        frame.to_json(orient="records")
        repr(frame)
    elif "numpy" in chosen:
        import numpy

        repr(numpy.linalg.inv(numpy.eye(2)) @ numpy.arange(2))
    if "chardet" in chosen:
        import chardet

        # Reads its models.
        chardet.detect("Возврат товара возможен в течение тридцати дней.".encode("cp1251"))
