"""JSON frames: parsed strictly, written compactly, each value checked for its type. Plain Python."""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any

JSON = Any
MAX_FRAME_BYTES = 1_048_576
# Readers of a row may run deeper in the stack, and JSON parsers recurse.
MAX_DEPTH = 200
# Only an escape produces one of these.
SUSPECT = re.compile(r"\\u(0000|[dD][89a-fA-F])")
LONE = re.compile("[\x00\ud800-\udfff]")


class BadFrame(ValueError):
    """An invalid frame; `code` is not_json, not_an_object, unknown_type, invalid_frame or
    too_large.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def canonical_json(value: JSON) -> str:
    """Sorted keys, no spaces, UTF-8: equal values give equal text. Raises ValueError for NaN and infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_wire_value(value: JSON) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def read_json(text: str | bytes | None) -> dict[str, JSON]:
    """One JSON object within the size limit, and without characters that a database column refuses."""
    if not isinstance(text, str):
        raise BadFrame("not_json", "frames must be text, not binary")
    if len(text) > MAX_FRAME_BYTES or (not text.isascii() and len(text.encode(errors="replace")) > MAX_FRAME_BYTES):
        raise BadFrame("too_large", f"a frame can have at most {MAX_FRAME_BYTES} bytes")
    try:
        body = STRICT.decode(text)
    except RecursionError:
        raise BadFrame("not_json", "the JSON is nested too deeply")
    except ValueError as error:
        raise BadFrame("not_json", f"the frame is not JSON: {error}")
    if not isinstance(body, dict):
        raise BadFrame("not_an_object", "a frame must be a JSON object")
    if is_too_deep(body, text):
        raise BadFrame("not_json", f"the JSON is nested deeper than {MAX_DEPTH} levels")
    refuse_lone(body, text)
    return body


def refuse_lone(body: JSON, text: str) -> None:
    """Raises BadFrame if a text of this value, whose JSON is that text, holds characters that a
    database refuses.
    """
    # Most frames have no such character, which is seen without looking at each text.
    if not SUSPECT.search(text):
        return
    if any(LONE.search(one) for one in iterate_texts(body)):
        raise BadFrame("not_json", "a text contains a NUL character or a lone surrogate")


def clean_frame_text(text: str) -> str:
    """A text for display, without characters that frames cannot carry."""
    return LONE.sub("\ufffd", text)


def iterate_texts(value: JSON) -> Iterator[str]:
    """Every text in a value of limited depth, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from iterate_texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from iterate_texts(item)


def is_too_deep(body: JSON, text: str) -> bool:
    """Whether this value, whose JSON is that text, is nested deeper than a frame may be."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    # Layer by layer, because a recursion would end where Python's stack does.
    layer = [body]
    for _ in range(MAX_DEPTH):
        below: list[JSON] = []
        for outer in layer:
            values = outer.values() if isinstance(outer, dict) else outer
            below += [value for value in values if isinstance(value, dict | list)]
        layer = below
    return bool(layer)


def refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        refuse_constant(digits)
    return value


STRICT = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite)
COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


# -- one check a shape: (value, field name) → the value as a dataclass holds it ----------------------------------------


def wrong(name: str, rule: str) -> BadFrame:
    return BadFrame("invalid_frame", f"“{name}” must be {rule}")


def read_text_field(value: JSON, name: str) -> str:
    if not isinstance(value, str):
        raise wrong(name, "a text")
    return value


def read_flag(value: JSON, name: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(name, "true or false")
    return value


def read_whole_number(value: JSON, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(name, "a whole number")
    return value


def read_number_field(value: JSON, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(name, "a number")
    try:
        return float(value)
    except OverflowError:
        raise wrong(name, "a number of a usual size")


def read_object(value: JSON, name: str) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise wrong(name, "an object")
    return value


def read_wire_error(value: JSON, name: str) -> dict[str, JSON] | None:
    if value is None:
        return None
    error = read_object(value, name)
    return {**error, "code": read_text_field(error.get("code"), "error.code"), "message": str(error.get("message", ""))}


def read_list(value: JSON, name: str) -> list[JSON]:
    if not isinstance(value, list):
        raise wrong(name, "a list")
    return value


def read_text_list(value: JSON, name: str) -> tuple[str, ...]:
    return tuple(read_text_field(item, name) for item in read_list(value, name))


def anything(value: JSON, name: str) -> JSON:
    return value


def optional(check: Any) -> Any:
    def check_unless_null(value: JSON, name: str) -> Any:
        if value is None:
            return None
        return check(value, name)

    return check_unless_null
