"""Converts a function's result to JSON, using only exact built-in types.

A subclass of a built-in type is read with the methods of the built-in type, never with its own.
Values that JSON lacks are converted according to the table in docs/howto/functions.md.
"""

from __future__ import annotations

import math
import re
import sys
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable
from json.encoder import c_encode_basestring, c_make_encoder  # type: ignore[attr-defined]
from types import GeneratorType, MappingProxyType, SimpleNamespace
from typing import Any

from . import conversions
from .channel import MOST_DIGITS

MAX_DEPTH = 64
# What to do instead of returning a value of the type with this name.
_INSTEAD = {
    "complex": "return [z.real, z.imag]",
    "coroutine": "await it",
    "function": "call it",
    "method": "call it",
    "type": "return an instance",
}
# Types whose items become a list.
_BECOME_LISTS = frozenset((set, frozenset, deque, range, GeneratorType, map, filter, zip, enumerate, reversed,
                           type({}.keys()), type({}.values()), type({}.items())))  # fmt: skip


# The C encoder itself, created once: json.dumps creates one for each call, which costs 50 page faults in a new child.
_encode_chunks = c_make_encoder(None, None, c_encode_basestring, None, ":", ",", False, False, False)

# The escape of a NUL character; behind an unpaired backslash the same letters are text.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class BadResult(Exception):
    """The function returned a value that JSON cannot represent."""


def encode(value: object) -> bytes:
    """The value as UTF-8 JSON. Raises BadResult with the position and a suggested fix."""
    # A function may have lifted this limit, and the host cannot read a longer number.
    sys.set_int_max_str_digits(MOST_DIGITS)
    text = "".join(_encode_chunks(_convert(value, "result", 0), 0))
    # Searched twice, since the pattern alone needs 0.1 s for a megabyte.
    if "\\u0000" in text and _NUL.search(text):
        raise BadResult("the result contains a NUL character, which databases cannot store: remove it")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadResult("the result contains an unpaired surrogate, which is not valid text") from None


def _convert(value: Any, where: str, depth: int) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return _check_finite(value, where)
    if depth >= MAX_DEPTH:
        raise BadResult(f"the result is nested deeper than {MAX_DEPTH} levels, or contains itself")
    if kind is list or kind is tuple:
        return [_convert(item, where, depth + 1) for item in value]
    if kind is dict:
        return _convert_dict(value, where, depth)
    return _convert_subclass(value, kind, where, depth)


def _convert_dict(value: dict[Any, Any], where: str, depth: int) -> dict[Any, Any]:
    converted = {}
    for original, item in value.items():
        key = _convert_key(original, where)
        place = f"{where}.{key}" if depth < 3 else where
        converted[key] = _convert(item, place, depth + 1)
    return converted


def _convert_subclass(value: Any, kind: type, where: str, depth: int) -> Any:
    """Read a subclass of a built-in type with the methods of the built-in type."""
    if kind is MappingProxyType:
        return _convert(dict(value), where, depth)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return _check_finite(float.__float__(value), where)
    if issubclass(kind, dict):
        return _convert(dict(dict.items(value)), where, depth)
    if issubclass(kind, list):
        return _convert(list.__getitem__(value, slice(None)), where, depth)
    if issubclass(kind, tuple):
        return _convert(tuple.__getitem__(value, slice(None)), where, depth)
    return _convert_other(value, kind, where, depth)


def _convert_other(value: Any, kind: type, where: str, depth: int) -> Any:
    """Convert a value that is of no type of JSON. Raises BadResult."""
    if kind in _BECOME_LISTS:
        items = [_convert(item, where, depth + 1) for item in value]
        return _sort_set(items) if kind in (set, frozenset) else items
    if issubclass(kind, bytes | bytearray | memoryview):
        return b2a_base64(bytes(value), newline=False).decode()
    if kind is SimpleNamespace:
        return _convert(vars(value), where, depth)
    if "__dataclass_fields__" in vars(kind):
        return _convert({name: getattr(value, name) for name in _list_fields(kind)}, where, depth)
    convert = _find_conversion(kind)
    if convert is not None:
        return _convert(convert(value), where, depth + 1)
    # Not `kind.__name__`, which a metaclass may define.
    name = type.__dict__["__name__"].__get__(kind)
    instead = _INSTEAD.get(name, "return a dict, a list, a data class, a string, a number, a boolean or None")
    raise BadResult(f"{where} is a {name}, which JSON cannot represent: {instead}")


def _list_fields(kind: type) -> list[str]:
    """The names of a data class's fields, as dataclasses.fields() gives them: that module may not be loaded here.

    The dictionary also has its ClassVar and InitVar declarations, of which an instance keeps no value.
    """
    declarations = vars(kind)["__dataclass_fields__"]
    return [name for name, field in declarations.items() if field._field_type.name == "_FIELD"]


def _find_conversion(kind: type) -> Callable[[Any], Any] | None:
    for base in type.mro(kind):
        if base in conversions.TABLE:
            return conversions.TABLE[base]
    return None


def _sort_set(items: list[Any]) -> list[Any]:
    """Sort a set, which has no order: equal sets must give the same result."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def _check_finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise BadResult(f"{where} is {value!r}, which JSON cannot represent: return None or a string")
    return value


def _convert_key(key: Any, where: str) -> Any:
    if issubclass(type(key), str):
        return str.__str__(key)
    if key is None or type(key) in (int, float, bool):
        return key
    if _find_conversion(type(key)):
        # Converted near the greatest depth: a key must be a single value.
        converted = _convert(key, where, MAX_DEPTH - 2)
        if type(converted) in (str, int, float, bool):
            return converted
    raise BadResult(f"{where} has a key of type {type(key).__name__}: JSON keys must be strings, use str(…)")
