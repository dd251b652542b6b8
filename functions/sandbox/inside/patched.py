"""Checks names given as data at the places where the standard library turns them into attributes or
source.

Python's own modules create classes from strings (named tuples, enums, data classes) and evaluate
annotations given as text. Each does so in one place, which is replaced once in the fork server,
before the lock-down.
"""

from __future__ import annotations

import collections
import enum
import re
import string
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .guards import SAFE_BUILTINS, SafeFormatter
from .names import RISKY_ATTRIBUTES, attribute_refusal

OWN = "stored_function"  # the module of a function
_ATTRIBUTE = re.compile(r"\.\s*(\w+)")
_NAMES_ONLY = re.compile(r"[\w.\[\]|, '\"]+")


def apply(*, with_libraries: bool = False) -> None:
    """Replace these functions. With libraries (pydantic), annotations are not restricted, as those
    of a library contain more than names.
    """
    collections.namedtuple = _namedtuple
    string.Formatter.get_field = SafeFormatter.get_field  # type: ignore[assignment, method-assign]  # `super()` reaches it
    enum.EnumType._create_ = _create_enum  # type: ignore[attr-defined]
    if not with_libraries:
        typing.ForwardRef._evaluate = _evaluate_names  # type: ignore[method-assign, assignment]
        _close(typing.ForwardRef)  # its own `_evaluate` would be given the names of modules


def apply_to_extended(*, with_libraries: bool = False) -> None:
    """The functions that only the extended profile has. Libraries may have fields of their own kind."""
    import dataclasses
    import linecache
    import logging
    import pathlib
    import traceback
    from asyncio import base_tasks

    from . import wrapped_extended

    for flavour in (pathlib._posix_flavour, pathlib._windows_flavour):  # type: ignore[attr-defined]
        type(flavour).pathmod = None  # the module itself, used only by methods that need files

    logging._STYLES.pop("{", None)  # it would format a record with fields that can reach any attribute
    logging.Formatter.formatException = wrapped_extended.format_exc_info  # type: ignore[assignment, method-assign]
    traceback.print_stack = wrapped_extended.print_stack
    base_tasks._task_get_stack.__code__ = _no_stack.__code__  # tasks keep the function
    base_tasks._task_print_stack.__code__ = _nothing.__code__
    linecache.updatecache = _no_lines  # it reads any file that a made-up frame or summary names
    _check_names_of(dataclasses.Field)
    if not with_libraries:
        _close(dataclasses.Field)  # its own `name` would be inserted into source


def refuse_files(module: Any) -> None:
    """What this module's functions find under the name `open`."""
    vars(module).setdefault("open", _no_file)


def _no_file(*arguments: Any, **keywords: Any) -> Any:
    raise OSError("functions have no files: pass the text as an argument")


def _no_lines(filename: str, module_globals: Any = None) -> list[str]:
    return []


def _no_stack(task: Any, limit: Any) -> list[Any]:
    return []


def _nothing(task: Any, limit: Any, file: Any) -> None:
    return None


def _check(name: Any) -> str:
    if type(name) is not str or not name.isidentifier():
        raise ValueError(f"{name!r:.80} is not a valid name")
    if refusal := attribute_refusal(name):
        raise ValueError(refusal.message)
    return name


_real_namedtuple, _real_create = collections.namedtuple, enum.EnumType._create_  # type: ignore[attr-defined]
_real_evaluate = typing.ForwardRef._evaluate


def _namedtuple(typename: str, field_names: str | Iterable[str], *, rename: bool = False, **more: Any) -> Any:
    """The fields of a named tuple become __match_args__, which class patterns read."""
    names = field_names.replace(",", " ").split() if isinstance(field_names, str) else list(field_names)
    if not rename:
        names = [_check(name) for name in names]
    more.setdefault("module", OWN)  # otherwise it inspects the caller's frame, which is this one
    return _real_namedtuple(typename, names, rename=rename, **more)


def _create_enum(cls: Any, class_name: str, names: Any, **more: Any) -> Any:
    """Enum("Name", {...}): the keys become attributes of a class."""
    if isinstance(names, str):
        names = names.replace(",", " ").split()
    elif isinstance(names, Mapping):
        names = [(name, names[name]) for name in names]
    names = [one if isinstance(one, str) else tuple(one) for one in names]
    for one in names:
        name = _check(one if isinstance(one, str) else one[0])
        if name.startswith("__"):
            raise ValueError(f"{name} cannot be used as the name of a member")
    return _real_create(cls, class_name, names, **more)


def _evaluate_names(reference: Any, globalns: Any = None, localns: Any = None, *more: Any, **keywords: Any) -> Any:
    """An annotation given as text may only name what is visible to the function."""
    text, module = reference.__forward_arg__, reference.__forward_module__
    if (
        type(text) is not str
        or not _NAMES_ONLY.fullmatch(text)
        or any(map(attribute_refusal, words_of(text)))
        or (not RISKY_ATTRIBUTES.isdisjoint(_ATTRIBUTE.findall(text)))
        or not set(_names_in(reference.__forward_code__)).issubset(words_of(text))  # the compiler reads ｆ as f
    ):
        raise TypeError("an annotation given as text must name a class")
    if module not in (None, OWN) or _is_of_library(globalns) or _is_of_library(localns):
        raise TypeError("an annotation given as text must name a class of this function")
    return _real_evaluate(reference, {**(globalns or {}), "__builtins__": SAFE_BUILTINS}, localns, *more, **keywords)


def _is_of_library(namespace: Any) -> bool:
    """Whether these are the names of a loaded module: those of a class that says that it was made there."""
    modules = list(sys.modules.items())
    return any(namespace is getattr(module, "__dict__", ()) for name, module in modules if name != OWN)


def _names_in(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, type(code)):  # a comprehension
            yield from _names_in(constant)


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _close(kind: Any) -> None:
    """No function has a class of this kind, whose methods would take the place of those that are checked."""

    def refuse(cls: type, **more: Any) -> None:
        raise TypeError(f"{kind.__name__} cannot be the base of a class")

    kind.__init_subclass__ = classmethod(refuse)


def _check_names_of(field: Any) -> None:
    """A data class inserts the names of its fields into generated source. Its slot is a property now, because
    `object.__setattr__` and the `__init__` of a frozen class pass over a `__setattr__` of the field's class.
    """
    slot = field.name

    def name(self: Any) -> Any:
        return slot.__get__(self)

    def set_name(self: Any, value: Any) -> None:
        slot.__set__(self, value if value is None else _check(value))

    field.name = property(name, set_name)
