"""Checks names given as data at the places where the standard library turns them into attributes or
source.

Python's own modules create classes from strings (named tuples, enums, data classes) and evaluate
annotations given as text. Each does so in one place, which is replaced once in the fork server,
before the lock-down.
"""

from __future__ import annotations

import collections
import enum
import functools
import operator
import re
import string
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .guards import SAFE_BUILTINS, SafeFormatter, class_without_meta, guarded_setattr
from .names import RISKY_ATTRIBUTES, attribute_refusal

# The module of a function.
OWN = "stored_function"
_ATTRIBUTE = re.compile(r"\.\s*(\w+)")
_NAMES_ONLY = re.compile(r"[\w.\[\]|, '\"]+")


def apply_patches(*, with_libraries: bool = False) -> None:
    """Replace these functions. With libraries (pydantic), annotations are not restricted, as those
    of a library contain more than names.
    """
    collections.namedtuple = _namedtuple
    string.Formatter.get_field = SafeFormatter.get_field  # type: ignore[assignment, method-assign]  # `super()` reaches it
    enum.EnumType._create_ = _create_enum  # type: ignore[attr-defined]
    _hide_type()
    functools.singledispatchmethod.__get__ = _bind_by_class  # type: ignore[method-assign]
    if not with_libraries:
        typing.ForwardRef._evaluate = _evaluate_names  # type: ignore[method-assign, assignment]
        typing._eval_type = _eval_type  # type: ignore[attr-defined]
        # Its own `_evaluate` would be given the names of modules.
        _close(typing.ForwardRef)


def apply_to_extended(*, with_libraries: bool = False) -> None:
    """The functions that only the extended profile has. Libraries may have fields of their own kind."""
    import copy
    import dataclasses
    import linecache
    import logging
    import pathlib
    import traceback
    from asyncio import base_tasks, format_helpers
    from email.contentmanager import ContentManager
    from xml.dom import xmlbuilder

    from . import fields, unconnected, wrapped_extended
    from .kernel import make_immutable

    for flavour in (pathlib._posix_flavour, pathlib._windows_flavour):  # type: ignore[attr-defined]
        # The module itself, used only by methods that need files.
        type(flavour).pathmod = None

    # It would format a record with fields that can reach any attribute.
    logging._STYLES.pop("{", None)
    logging.Formatter.formatException = wrapped_extended.format_exc_info  # type: ignore[assignment, method-assign]
    format_helpers.extract_stack = wrapped_extended.extract_stack
    # Futures keep the function.
    traceback.extract_stack.__code__ = wrapped_extended.extract_stack.__code__
    find = ContentManager._find_set_handler  # type: ignore[attr-defined]
    ContentManager._find_set_handler = _without_classes(find)  # type: ignore[attr-defined]
    traceback.print_stack = wrapped_extended.print_stack
    # Tasks keep the function.
    base_tasks._task_get_stack.__code__ = _no_stack.__code__
    base_tasks._task_print_stack.__code__ = _nothing.__code__
    # It reads any file that a made-up frame or summary names.
    linecache.updatecache = _no_lines
    _guard_field_name(dataclasses.Field)
    if not with_libraries:
        # Its own `name` would be inserted into source.
        _close(dataclasses.Field)
    # Another `name` in place of the property as well.
    make_immutable(dataclasses.Field)
    fields.patch_dataclass_fields()
    unconnected.refuse_connections()
    xmlbuilder.DOMImplementationLS.createDOMBuilder = _no_file  # type: ignore[method-assign]
    # `__reduce_ex__` names attributes to set on any object.
    vars(copy)["setattr"] = guarded_setattr


def refuse_conversions() -> None:
    """From now on no module becomes an enum, as socket and signal do while they are loaded."""
    enum.EnumType._convert_ = _no_conversion  # type: ignore[attr-defined]


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
_real_eval_type = typing._eval_type  # type: ignore[attr-defined]


def _namedtuple(typename: str, field_names: str | Iterable[str], *, rename: bool = False, **more: Any) -> Any:
    """The fields of a named tuple become __match_args__, which class patterns read."""
    names = field_names.replace(",", " ").split() if isinstance(field_names, str) else list(field_names)
    if not rename:
        names = [_check(name) for name in names]
    # Otherwise it inspects the caller's frame, which is this one.
    more.setdefault("module", OWN)
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


def _eval_type(t: Any, globalns: Any, localns: Any, recursive_guard: frozenset[str] = frozenset()) -> Any:
    """typing's own calls the `_evaluate` that it finds, with the names of modules."""
    if isinstance(t, typing.ForwardRef):
        return _evaluate_names(t, globalns, localns, recursive_guard)
    return _real_eval_type(t, globalns, localns, recursive_guard)


def _evaluate_names(
    reference: Any, globalns: Any = None, localns: Any = None, recursive_guard: frozenset[str] = frozenset()
) -> Any:
    """An annotation given as text may only name what is visible to the function.

    What is checked is what is evaluated: the reference is read once, and its own code is not used,
    because mappings of a function run code while they are read, and could exchange it.
    """
    text, module = reference.__forward_arg__, reference.__forward_module__
    if _is_of_library(globalns) or _is_of_library(localns) or not (module is None or module == OWN):
        raise TypeError("an annotation given as text must name a class of this function")
    names = {**((localns if globalns is None else globalns) or {}), "__builtins__": SAFE_BUILTINS}
    code = _compile_expression(text)
    if text in recursive_guard:
        return reference
    value = typing._type_check(  # type: ignore[attr-defined]
        eval(code, names, names if localns is None else localns),
        "Forward references must evaluate to types.",
        is_argument=reference.__forward_is_argument__,
        allow_special_forms=reference.__forward_is_class__,
    )
    return _eval_type(value, globalns, localns, frozenset({*recursive_guard, text}))


def _compile_expression(text: Any) -> Any:
    if (
        type(text) is str
        and _NAMES_ONLY.fullmatch(text)
        and not any(map(attribute_refusal, find_identifiers(text)))
        and RISKY_ATTRIBUTES.isdisjoint(_ATTRIBUTE.findall(text))
    ):
        code = compile(text, "<string>", "eval", dont_inherit=True)
        if set(_iterate_code_names(code)).issubset(find_identifiers(text)):
            # The compiler reads ｆ as f.
            return code
    raise TypeError("an annotation given as text must name a class")


def _no_conversion(cls: Any, *arguments: Any, **keywords: Any) -> Any:
    """It makes members of everything that any loaded module has."""
    raise TypeError("_convert_ is not available in a function: use a class statement")


def _bind_by_class(self: Any, obj: Any, cls: Any = None) -> Any:
    """The dispatcher and the method may be those of a function, and get no class of a class."""
    owner = class_without_meta(type(obj)) if cls is None else cls

    def method(*args: Any, **kwargs: Any) -> Any:
        implementation = self.dispatcher.dispatch(class_without_meta(args[0].__class__))
        return implementation.__get__(obj, owner)(*args, **kwargs)

    vars(method)["__isabstractmethod__"] = self.__isabstractmethod__
    vars(method)["register"] = self.register
    return functools.update_wrapper(method, self.func)


def _without_classes(find: Any) -> Any:
    """The handlers may be a mapping of a function, which gets no class of a class."""

    def find_set_handler(self: Any, msg: Any, obj: Any) -> Any:
        if issubclass(type(obj), type):
            raise KeyError("type")
        return find(self, msg, obj)

    return find_set_handler


def _is_same_alias(one: Any, other: Any) -> Any:
    """The origin of the other may be an object of a function, whose `__eq__` would be given that of the first."""
    if not isinstance(other, typing._GenericAlias):  # type: ignore[attr-defined]
        return NotImplemented
    return one.__origin__ is other.__origin__ and one.__args__ == other.__args__


def _reduce_alias(alias: Any) -> Any:
    """A copy of an alias takes the name that it says it has from the names of typing."""
    name, args = alias._name, tuple(alias.__args__)
    if name and (type(name) is not str or name not in typing.__all__):
        raise TypeError("this alias cannot be copied")
    origin = getattr(typing, name) if name else alias.__origin__
    return operator.getitem, (origin, args[0] if len(args) == 1 and not isinstance(args[0], tuple) else args)


def _hide_type() -> None:
    """`type[int]` is an alias of the real `type`: nobody calls it or derives a metaclass from it."""

    def guarded(real: Any) -> Any:
        def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
            origin = self.__origin__
            if isinstance(origin, type) and issubclass(origin, type):
                raise TypeError("type() accepts one argument only: use a class statement to create a class")
            return real(self, *arguments, **keywords)

        return method

    typing._GenericAlias.__eq__ = _is_same_alias  # type: ignore[attr-defined]
    typing._GenericAlias.__reduce__ = _reduce_alias  # type: ignore[attr-defined]
    for kind in (typing._BaseGenericAlias, typing._GenericAlias):  # type: ignore[attr-defined]
        for name in ("__call__", "__mro_entries__"):
            if name in vars(kind):
                setattr(kind, name, guarded(vars(kind)[name]))


def _is_of_library(namespace: Any) -> bool:
    """Whether these are the names of a loaded module: those of a class that says that it was made there."""
    modules = list(sys.modules.items())
    return any(namespace is getattr(module, "__dict__", ()) for name, module in modules if name != OWN)


def _iterate_code_names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            # The code of a comprehension.
            yield from _iterate_code_names(constant)


def find_identifiers(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _close(kind: Any) -> None:
    """No function has a class of this kind, whose methods would take the place of those that are checked."""

    def refuse(cls: type, **more: Any) -> None:
        raise TypeError(f"{kind.__name__} cannot be the base of a class")

    kind.__init_subclass__ = classmethod(refuse)


def _guard_field_name(field: Any) -> None:
    """A data class inserts the names of its fields into generated source. Its slot is a property now, because
    `object.__setattr__` and the `__init__` of a frozen class pass over a `__setattr__` of the field's class.
    """
    slot = field.name

    def name(self: Any) -> Any:
        return slot.__get__(self)

    def set_name(self: Any, value: Any) -> None:
        slot.__set__(self, value if value is None else _check(value))

    field.name = property(name, set_name)
