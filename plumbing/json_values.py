"""The one gate for values that enter a run, and the one reader and writer of JSON behind it.

Models, tools, services, devices and documents send what JSON, PostgreSQL or UTF-8 cannot hold. `clean_json`
says once what becomes of it (docs/values.md):

- NUL and half of a surrogate pair in a text become U+FFFD; two halves that follow each other are one character.
- NaN and infinite numbers become the texts "NaN", "Infinity" and "-Infinity".
- Integers stay integers up to 4,300 digits; a longer one becomes a text that says so.

`dump_json` cannot fail on what `clean_json` let in. `load_json` keeps integers that do not fit into 64 bits, which
orjson would turn into floats.
"""

import json
import math
import re
from typing import Any

import orjson

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
LONG_NUMBER = re.compile(rb"[0-9]{19}")
# Python neither reads nor writes more.
MAX_DIGITS = 4_300
LARGEST = 10**MAX_DIGITS


class JsonText(str):
    """A text that is JSON already: a row's JSON column takes it as it is (plumbing/statements/rows.py)."""

    __slots__ = ()


def clean_json(value: Any) -> Any:
    """The value itself, or a copy without what cannot be stored or sent. Strings, numbers, lists and dicts are looked
    at; anything else stays as it is.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else write_float_key(value)
    if isinstance(value, int):
        return value if -LARGEST < value < LARGEST else "a number of more than 4,300 digits"
    if isinstance(value, dict):
        return clean_dict(value)
    if isinstance(value, list | tuple):
        return clean_list(value)
    return value


def clean_text(text: str) -> str:
    if text.isascii() and "\x00" not in text:
        return text
    if not UNSTORABLE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "\ufffd")


def clean_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    cleaned = {clean_json(key): clean_json(item) for key, item in value.items()}
    is_same = all(key is old and cleaned[key] is item for key, (old, item) in zip(cleaned, value.items(), strict=False))
    return value if is_same and len(cleaned) == len(value) else cleaned


def clean_list(value: Any) -> Any:
    cleaned = [clean_json(item) for item in value]
    is_same = all(new is old for new, old in zip(cleaned, value, strict=True))
    return value if is_same else cleaned


def write_float_key(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def dump_json(value: Any, *, sort_keys: bool = False) -> bytes:
    """Compact JSON. What orjson refuses, such as integers beyond 64 bits, the standard library writes."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:
        text = json.dumps(
            clean_json(value), default=str, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys
        )
        return text.encode("utf-8", "replace")


def load_json(content: bytes | str) -> Any:
    """The value of a JSON text. Raises ValueError."""
    raw = content.encode() if isinstance(content, str) else content
    if LONG_NUMBER.search(raw) is None:
        return orjson.loads(raw)
    try:
        value = json.loads(raw, parse_constant=refuse_constant, parse_float=finite_float)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    # Refuses half of a surrogate pair, as orjson does.
    json.dumps(value, ensure_ascii=False).encode()
    return value


def refuse_constant(word: str) -> None:
    """For NaN and Infinity, which the standard library reads although JSON has no such numbers."""
    raise ValueError(f"{word} is not JSON")


def finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number
