"""Run-time guards of the language layer, and the builtins that stored code sees.

Only what compile time cannot decide is guarded: attribute names that arrive as strings, and the `format` family.
"""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable
from typing import Any

from .names import attribute_refusal, words

_MISSING = object()

_PLAIN = words("""
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
    """str.format whose fields cannot walk to private, dunder or frame attributes."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        first, rest = string._string.formatter_field_name_split(field_name)  # type: ignore[attr-defined]
        value = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            value = guarded_getattr(value, name) if is_attribute else value[name]
        return value, first


_formatter = SafeFormatter()


def guarded_getattr(subject: Any, name: Any, default: Any = _MISSING) -> Any:
    """getattr() for names that only run time knows, and for the literal names that need care."""
    _check_name(name)
    if name in ("format", "format_map") and (isinstance(subject, str) or subject is str or _is_str_type(subject)):
        return _safe_format(subject, name)
    if name == "mro" and isinstance(subject, type):
        raise AttributeError("mro is not available in a function")
    if name in ("__setattr__", "__delattr__"):
        return _checked_setter(getattr(subject, name), 2 if name == "__setattr__" else 1)
    if default is _MISSING:
        return getattr(subject, name)
    return getattr(subject, name, default)


def guarded_setattr(subject: Any, name: Any, value: Any) -> None:
    """setattr() under the same names as an assignment in source."""
    _check_name(name)
    setattr(subject, name, value)


def guarded_delattr(subject: Any, name: Any) -> None:
    """delattr() under the same names as a `del` in source."""
    _check_name(name)
    delattr(subject, name)


def guarded_hasattr(subject: Any, name: Any) -> bool:
    """hasattr() that answers False for what may not be read."""
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


def _is_str_type(subject: Any) -> bool:
    return isinstance(subject, type) and issubclass(subject, str)


def _safe_format(subject: Any, name: str) -> Callable[..., str]:
    if isinstance(subject, str):
        text = str.__str__(subject)
        if name == "format":
            return lambda *args, **kwargs: _formatter.vformat(text, args, kwargs)
        return lambda mapping: _formatter.vformat(text, (), mapping)
    if name == "format":
        return lambda text, /, *args, **kwargs: _formatter.vformat(str.__str__(text), args, kwargs)
    return lambda text, mapping: _formatter.vformat(str.__str__(text), (), mapping)


def _checked_setter(setter: Callable[..., Any], from_the_end: int) -> Callable[..., Any]:
    """object.__setattr__(self, name, value), as frozen dataclasses use it, under the names of an assignment."""

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
            raise TypeError("type() takes one argument here: write a class statement to make a class")
        return type(arguments[0])


class safe_type(metaclass=_TypeMeta):  # noqa: N801 - stands in for a builtin
    """type(x), isinstance(x, type) and annotations such as type[int], but no classes made from strings."""

    def __class_getitem__(cls, item: Any) -> Any:
        return type[item]


def guarded_vars(*subject: Any) -> dict[str, Any]:
    """vars(x) as a copy without private names."""
    if len(subject) != 1:
        raise TypeError("vars() needs an object here")
    return {name: value for name, value in builtins.vars(subject[0]).items() if not attribute_refusal(name)}


def guarded_dir(subject: Any) -> list[str]:
    """dir(x) without what may not be read."""
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
