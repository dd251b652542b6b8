"""Turning whatever a function returned into JSON, from exact built-in types only.

A subclass can lie (`items()` of a dict subclass) or hang (`__iter__`), so nothing of its own is ever asked.
"""

from __future__ import annotations

import math
import re
from json.encoder import c_encode_basestring, c_make_encoder  # type: ignore[attr-defined]
from types import MappingProxyType
from typing import Any

MAX_DEPTH = 64
_INSTEAD = {
    "set": "return sorted(…) or list(…)",
    "frozenset": "return sorted(…) or list(…)",
    "bytes": "decode it, or use base64.b64encode(…).decode()",
    "bytearray": "decode it, or use base64.b64encode(…).decode()",
    "datetime": "return .isoformat()",
    "date": "return .isoformat()",
    "time": "return .isoformat()",
    "timedelta": "return .total_seconds()",
    "Decimal": "return str(…) or float(…)",
    "Fraction": "return str(…) or float(…)",
    "UUID": "return str(…)",
    "complex": "return [z.real, z.imag]",
    "generator": "return list(…)",
    "map": "return list(…)",
    "filter": "return list(…)",
    "zip": "return list(…)",
    "range": "return list(…)",
    "dict_keys": "return list(…)",
    "dict_values": "return list(…)",
    "dict_items": "return list(…)",
    "coroutine": "await it",
}


# The C encoder itself, made once: json.dumps builds a new one each time, 50 page faults in each new child.
_chunks = c_make_encoder(None, None, c_encode_basestring, None, ":", ",", False, False, False)


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class BadResult(Exception):
    """The function returned something that JSON cannot hold."""


def encode(value: object) -> bytes:
    """The value as UTF-8 JSON. Raises BadResult, naming the place and what to return instead."""
    text = "".join(_chunks(_plain(value, "result", 0), 0))
    if "\\u0000" in text and _NUL.search(text):  # the pattern alone takes 0.1 s for a megabyte
        raise BadResult("the result contains a NUL character, which databases cannot hold: remove it")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadResult("the result contains half of a surrogate pair, which is not text") from None


def _plain(value: Any, where: str, depth: int) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return _finite(value, where)
    if depth >= MAX_DEPTH:
        raise BadResult(f"the result is nested deeper than {MAX_DEPTH} levels, or contains itself")
    if kind is list or kind is tuple:
        return [_plain(item, where, depth + 1) for item in value]
    if kind is dict:
        return _plain_dict(value, where, depth)
    return _from_subclass(value, kind, where, depth)


def _plain_dict(value: dict[Any, Any], where: str, depth: int) -> dict[Any, Any]:
    plain = {}
    for given, item in value.items():
        key = _key(given, where)
        plain[key] = _plain(item, f"{where}.{key}" if depth < 3 else where, depth + 1)
    return plain


def _from_subclass(value: Any, kind: type, where: str, depth: int) -> Any:
    """Read a subclass of a built-in type through the built-in's own methods."""
    if kind is MappingProxyType:
        return _plain(dict(value), where, depth)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return _finite(float.__float__(value), where)
    if issubclass(kind, dict):
        return _plain(dict(dict.items(value)), where, depth)
    if issubclass(kind, list):
        return _plain(list.__getitem__(value, slice(None)), where, depth)
    if issubclass(kind, tuple):
        return _plain(tuple.__getitem__(value, slice(None)), where, depth)
    name = type.__dict__["__name__"].__get__(kind)
    instead = _INSTEAD.get(name, "return a dict, a list, a string, a number, a boolean or None")
    raise BadResult(f"{where} is a {name}, which JSON cannot hold: {instead}")


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise BadResult(f"{where} is {value!r}, which JSON cannot hold: return None or a string")
    return value


def _key(key: Any, where: str) -> Any:
    if issubclass(type(key), str):
        return str.__str__(key)
    if key is None or type(key) in (int, float, bool):
        return key
    raise BadResult(f"{where} has a key of type {type(key).__name__}: JSON keys are strings, use str(…)")
