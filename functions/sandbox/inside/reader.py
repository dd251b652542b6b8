"""Parses untrusted input: a source's signature, a schema, a value against its schema, an
expression, an OpenAPI document.

Runs in a child with limits on memory and time, and ends after one task. It uses the application's
framework-independent modules, all loaded before the lock-down.
"""

from __future__ import annotations

import base64
import json
import tarfile
import unicodedata  # noqa: F401 - the parser loads it late, for names beyond ASCII
import zlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from agents import diff, documents, mapping, schema, schema_rules
from functions import signature
from plumbing.untrusted import archives, formats, jinja, openapi

from . import letters


def answer(order: dict[str, Any]) -> bytes:
    """The reply to one task: {"value": …}, or {"refused": …} with the task's refusal."""
    task = TASKS[order["task"]]
    try:
        reply = {"value": task(*order["parts"])}
    except (ValueError, RecursionError) as error:
        reply = {"refused": describe_error(error)}
    return json.dumps(reply).encode()


def describe_error(error: Exception) -> dict[str, Any]:
    facts = {name: getattr(error, name, None) for name in ("code", "hint", "line", "column")}
    message = str(getattr(error, "message", error))
    return {**facts, "message": message[:2000]}


def read_signature(source: str, entry: str) -> dict[str, Any]:
    return asdict(signature.read_source_signature(source, entry))


def validate(rules: Any, value: Any) -> list[dict[str, str]]:
    key = schema_rules.cache_key(rules)
    return schema.validate_here(key, value, all_errors=False)


def side_by_side(old: str, new: str) -> list[dict[str, Any]]:
    return [asdict(row) for row in diff.side_by_side_here(old, new)]


TASKS: dict[str, Callable[..., Any]] = {
    "signature": read_signature,
    "check_schema": schema_rules.find_problems,
    "validate": validate,
    "search": mapping.search_here,
    "map_input": mapping.map_here,
    "side_by_side": side_by_side,
    "unified": diff.diff_texts_here,
    "as_text": diff.text_here,
    "letter": letters.read_here,
    "openapi": openapi.read_here,
    "render": jinja.render_here,
    "template_names": jinja.names_here,
    "definitions": documents.read_here,
    "unpack": archives.unpack_here,
    "yaml": formats.yaml_value_here,
}

_SOURCE = 'def main(ä: int, b: list[str] = []) -> dict:\n    """Do it.\n\n    Args:\n        a (int): one.\n    """\n'
_SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]+$", "format": "date"}}}
_TEMPLATE = "{% for a in b if a > 1 %}{{ a | upper }}, {{ loop.index }}{% else %}{{ c | default('d') }}{% endfor %}"
_DOCUMENT = "openapi: 3.1.0\nservers: [{url: 'https://a.example'}]\npaths: {/a: {get: {operationId: a}}}\n"
_LETTER = {
    "kind": "multipart/mixed",
    "parts": [
        {"kind": "text/html", "text": "<style>.a{display:none}</style><p class='a' style='color:#fff'>&eacute;</p>"},
        {"kind": "text/plain", "text": "a \nb", "is_flowed": True},
        {"kind": "text/calendar", "text": "BEGIN:VEVENT\nDTSTART;TZID=A:20261201T100000\nEND:VEVENT"},
    ],
}
_ZIP = base64.b64encode(archives.pack({"a": b"a"})).decode()
_TAR = base64.b64encode(zlib.compress(tarfile.TarInfo("a").tobuf() + bytes(1024), wbits=31)).decode()


def warm_up() -> None:
    """Run one of each task, so that the first real task finds everything loaded."""
    for task, parts in {
        "signature": [_SOURCE, ""], "check_schema": [_SCHEMA], "validate": [_SCHEMA, {"a": "1"}],
        "search": ["a[?b > `1`].b | sort(@)", {"a": [{"b": 2}]}], "unified": ["a\nb", "a\nc", "1", "2"],
        "as_text": [{"a": [1, "a\nb", None, 1.5]}],
        "letter": [_LETTER, 1000], "openapi": [_DOCUMENT, None, "", ""],
        "render": [_TEMPLATE, {"b": [1, 2], "c": None}], "template_names": [_TEMPLATE],
        "definitions": ["kind: agent\n"], "yaml": ["a: 1"],
    }.items():  # fmt: skip
        answer({"task": task, "parts": parts})
    for archive in (_ZIP, _TAR):
        answer({"task": "unpack", "parts": [archive, "a", ""]})
    # Errors load more.
    answer({"task": "render", "parts": ["{% if %}", {}]})
