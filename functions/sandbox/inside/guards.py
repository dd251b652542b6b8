"""Run-time guards of the language layer, and the builtins available to stored code.

Only what cannot be decided at compile time is guarded: attribute names in strings, and the `format`
family.
"""

from __future__ import annotations

import builtins
import string
import typing
from collections.abc import Callable
from functools import partialmethod
from typing import Any

from .names import RISKY_ATTRIBUTES, attribute_refusal, pattern_refusal, split_words

_MISSING = object()
_BOUND = type("".format)
_NATIVE = (_BOUND, type(str.format), type(object.__setattr__), type(object.__dict__["__class__"]))
_MRO, _DICT = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
# Bound to an int's class, say, they call their function with `type`.
_OF_THE_CLASS = (classmethod, partialmethod)

_PLAIN = split_words("""
    abs aiter all anext any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod
    enumerate filter float format frozenset hash hex id int isinstance issubclass iter len list map max
    memoryview min next object oct ord pow print property range repr reversed round set slice sorted
    staticmethod str sum super tuple zip None True False NotImplemented Ellipsis ArithmeticError AssertionError
    AttributeError BaseException BlockingIOError BufferError ChildProcessError ConnectionError
    DeprecationWarning EOFError Exception FileExistsError FileNotFoundError FloatingPointError FutureWarning
    GeneratorExit ImportError ImportWarning IndexError InterruptedError KeyError KeyboardInterrupt LookupError
    MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError OverflowError
    PendingDeprecationWarning PermissionError ProcessLookupError RecursionError ReferenceError ResourceWarning
    RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError
    SystemExit TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError
    UnicodeTranslateError UserWarning ValueError Warning ZeroDivisionError IOError EnvironmentError
    ExceptionGroup BaseExceptionGroup __build_class__
""")


class SafeFormatter(string.Formatter):
    """str.format whose fields cannot reach private, dunder or frame attributes."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        first, rest = string._string.formatter_field_name_split(field_name)  # type: ignore[attr-defined]
        value = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            value = guarded_getattr(value, name) if is_attribute else value[name]
        return value, first


_formatter = SafeFormatter()


def guarded_getattr(subject: Any, name: Any, default: Any = _MISSING) -> Any:
    """getattr() for names known only at run time, and for literal names that need extra checks."""
    _check_name(name)
    if name == "mro" and isinstance(subject, type):
        raise AttributeError("mro is not available in a function")
    if name in ("__setattr__", "__delattr__"):
        return _checked_setter(getattr(subject, name), 2 if name == "__setattr__" else 1)
    value = getattr(subject, name) if default is _MISSING else getattr(subject, name, default)
    if name in ("format", "format_map"):
        return _safe_format(value, name)
    if name == "__get__":
        return _checked_binder(subject, value)
    return class_without_meta(value) if name == "__class__" else value


def guarded_setattr(subject: Any, name: Any, value: Any) -> None:
    """setattr() with the same rules as an assignment in source."""
    _check_name(name)
    setattr(subject, name, value)


def guarded_delattr(subject: Any, name: Any) -> None:
    """delattr() with the same rules as a `del` in source."""
    _check_name(name)
    delattr(subject, name)


def guarded_hasattr(subject: Any, name: Any) -> bool:
    """hasattr() that returns False for attributes that may not be read."""
    try:
        guarded_getattr(subject, name)
    except AttributeError:
        return False
    return True


def _check_name(name: Any) -> None:
    if type(name) is not str:
        raise TypeError("attribute name must be string")
    refusal = attribute_refusal(name)
    if refusal:
        raise AttributeError(refusal.message)


def check_patterns(*classes: Any) -> bool:
    """Runs before `case Point(x, y)`: checks that the attributes in __match_args__ may be read. It
    never matches itself.
    """
    for kind in classes:
        for name in _match_args(kind) if isinstance(kind, type) else ():
            refusal = pattern_refusal(name) if type(name) is str else None
            if refusal or type(name) is not str:
                raise TypeError(refusal.message if refusal else "__match_args__ must be a tuple of names")
    return False


def _match_args(kind: type) -> tuple[Any, ...]:
    """The attributes as the match will find them: a descriptor must not return different values for
    the check and the match.
    """
    for base in _MRO(kind):
        if "__match_args__" in (own := _DICT(base)):
            names = own["__match_args__"]
            return names if type(names) is tuple else (None,)
    return ()


def _safe_format(attribute: Any, name: str) -> Any:
    """The attribute found under that name, with str's format methods replaced by guarded ones, also
    for access through `super()`.
    """
    if attribute is str.format:
        return lambda text, /, *args, **kwargs: _formatter.vformat(str.__str__(text), args, kwargs)
    if attribute is str.format_map:
        return lambda text, mapping: _formatter.vformat(str.__str__(text), (), mapping)
    text = getattr(attribute, "__self__", None) if type(attribute) is _BOUND else None
    if not isinstance(text, str):
        return attribute
    plain = str.__str__(text)
    if name == "format":
        return lambda *args, **kwargs: _formatter.vformat(plain, args, kwargs)
    return lambda mapping: _formatter.vformat(plain, (), mapping)


def class_without_meta(kind: Any) -> Any:
    """Return safe_type in place of a metaclass, which could create classes from strings with
    arbitrary methods.
    """
    return safe_type if isinstance(kind, type) and issubclass(kind, type) else kind


def _checked_binder(subject: Any, binder: Any) -> Any:
    bound = getattr(binder, "__self__", None)
    if isinstance(bound, _OF_THE_CLASS) or (isinstance(subject, type) and issubclass(subject, _OF_THE_CLASS)):
        raise AttributeError("__get__ of a class method is not available in a function")
    return binder


def _checked_setter(setter: Callable[..., Any], from_the_end: int) -> Callable[..., Any]:
    """object.__setattr__(self, name, value), as frozen dataclasses use it, with the rules of an
    assignment.
    """

    def checked(*arguments: Any) -> Any:
        if len(arguments) < from_the_end:
            raise TypeError("too few arguments")
        _check_name(arguments[-from_the_end])
        return setter(*arguments)

    return checked


class _TypeMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, type)

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        if len(arguments) != 1 or keywords:
            raise TypeError("type() accepts one argument only: use a class statement to create a class")
        return class_without_meta(type(arguments[0]))


class safe_type(metaclass=_TypeMeta):  # noqa: N801 - stands in for a builtin
    """Supports type(x), isinstance(x, type) and annotations such as type[int], but does not create
    classes from strings.
    """

    def __class_getitem__(cls, item: Any) -> Any:
        return typing.Type[item]  # noqa: UP006 - an alias of `type` itself could be called


def guarded_vars(*subject: Any) -> dict[str, Any]:
    """vars(x) as a copy without private names; for a class, also without attributes that must be
    read through an access.
    """
    if len(subject) != 1:
        raise TypeError("vars() requires an object")
    own = {name: value for name, value in builtins.vars(subject[0]).items() if not attribute_refusal(name)}
    return {name: value for name, value in own.items() if name not in RISKY_ATTRIBUTES or not _is_native(value)}


def _is_native(value: Any) -> bool:
    return type(value) in _NATIVE


def guarded_dir(subject: Any) -> list[str]:
    """dir(x) without names that may not be read."""
    return [name for name in builtins.dir(subject) if not name.startswith("_")]


SAFE_BUILTINS: dict[str, Any] = {name: getattr(builtins, name) for name in _PLAIN if hasattr(builtins, name)} | {
    "getattr": guarded_getattr,
    "setattr": guarded_setattr,
    "delattr": guarded_delattr,
    "hasattr": guarded_hasattr,
    "type": safe_type,
    "vars": guarded_vars,
    "dir": guarded_dir,
}
