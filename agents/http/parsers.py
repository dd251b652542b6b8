"""The parsers of bodies: JSON on every path, and multipart forms with files. Both refuse what is too large or cannot be
stored.
"""

import json
import math
import re
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_noop as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser, MultiPartParser

from agents.exceptions import TooLarge
from agents.schema import measure_depth

# Escapes and exponents are the only ways to a NUL, a lone surrogate or an infinity; other bodies need no check.
SUSPECT = re.compile(rb"\\u(0000|[dD][89a-fA-F])|[0-9][eE]")
# Bytes of a form, beside its file.
FORM_BYTES = 65_536
# Readers of a row may run deeper in the stack, and JSON parsers and writers recurse.
MAX_DEPTH = 200
LONE = re.compile("[\x00\ud800-\udfff]")


class JSONParser(BaseParser):
    """UTF-8 JSON (RFC 8259). Raises ParseError (400) and TooLarge (413)."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        # Django itself only checks the size of `request.body`, not of a streamed body.
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise body_too_large(limit)
        try:
            return parse_json_body(raw)
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {error}")


class FileParser(MultiPartParser):
    """multipart/form-data with one file. Django writes files beyond 2.5 MB to a temporary file."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        request = (parser_context or {}).get("request") or stream
        length = request.META.get("CONTENT_LENGTH") or ""
        limit = settings.FILE_BYTES + FORM_BYTES
        # Before the form is read: then nothing of it is stored.
        if length.isdigit() and int(length) > limit:
            raise body_too_large(limit)
        form: Any = super().parse(stream, media_type, parser_context)
        name_count = len(form.data) + len(form.files)
        part_count = sum(len(values) for _name, values in [*form.data.lists(), *form.files.lists()])
        if name_count != part_count:
            raise ParseError("The form has two parts with the same name.")
        return form


def body_too_large(limit: int) -> TooLarge:
    return TooLarge(
        _("The body is larger than this site allows: %(limit)s bytes.") % {"limit": limit},
        hint=_("Send less at a time."),
        details=[{"code": "too_large", "limit": limit, "unit": "bytes"}],
    )


def parse_json_body(raw: bytes) -> Any:
    """The value of a JSON text; None for an empty one. Raises ValueError."""
    text = raw.decode("utf-8-sig") or "null"
    try:
        value = json.loads(text, parse_constant=refuse_json_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply")
    except ValueError as error:
        # Python's advice to programmers, on numbers of many digits.
        if "set_int_max_str_digits" in str(error):
            raise ValueError("a number is too large")
        raise
    # Few bodies have so many brackets: counting them is cheaper than measuring each body.
    bracket_count = raw.count(b"[") + raw.count(b"{")
    if bracket_count > MAX_DEPTH and measure_depth(value, MAX_DEPTH) > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if SUSPECT.search(raw):
        check_json_value(value)
    return value


def find_fault(value: Any) -> str:
    """Why this value of JSON cannot be stored, such as a program has read leniently; empty if it can."""
    try:
        if measure_depth(value, MAX_DEPTH) > MAX_DEPTH:
            return f"it is nested deeper than {MAX_DEPTH} levels"
        check_json_value(value)
    except ValueError as error:
        return str(error)
    return ""


def refuse_json_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


def check_json_value(value: Any) -> None:
    if isinstance(value, str):
        if LONE.search(value):
            raise ValueError("a text contains a NUL character or a lone surrogate")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number is too large")
    elif isinstance(value, list):
        for item in value:
            check_json_value(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_json_value(key)
            check_json_value(item)
