"""One reader for JSON bodies: what is too large or no database column could hold is refused here, for every path."""

import json
import math
import re
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from agents.schema import depth_of

# Escapes and exponents are the only ways to a NUL, a lone surrogate or an infinity; a body without them needs no walk.
SUSPECT = re.compile(rb"\\u(0000|[dD][89a-fA-F])|[0-9][eE]")
MAX_DEPTH = 200  # who reads a row later may stand deeper in its own calls, and JSON's readers and writers recurse
LONE = re.compile("[\x00\ud800-\udfff]")


class JSONParser(BaseParser):
    """UTF-8 JSON (RFC 8259). Raises ParseError (400) and RequestDataTooBig (413)."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)  # Django itself looks at the size of `request.body` only, not of what is streamed
        if len(raw) > limit:
            raise RequestDataTooBig
        try:
            return read(raw)
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {error}")


def read(raw: bytes) -> Any:
    """The value of a JSON text; null of an empty one. Raises ValueError."""
    try:
        value = json.loads(raw.decode("utf-8-sig") or "null", parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply")
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and depth_of(value, MAX_DEPTH) > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if SUSPECT.search(raw):
        check(value)
    return value


def refuse(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


def check(value: Any) -> None:
    if isinstance(value, str):
        if LONE.search(value):
            raise ValueError("a text holds a NUL character or half a surrogate pair")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number is too large")
    elif isinstance(value, list):
        for item in value:
            check(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            check(key)
            check(item)
