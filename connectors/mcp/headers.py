"""Headers that repeat parts of a message (2026-07-28): method, name, and marked arguments."""

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

MARK = "x-mcp-header"
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
SAFE_INTEGER = 2**53 - 1
# The parameter that the header Mcp-Name repeats.
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
JSON = Any


class BadMark(ValueError):
    """An `x-mcp-header` of a tool's schema breaks the rules, so the tool must not be used over HTTP."""


def build_message_headers(message: dict[str, JSON]) -> dict[str, str]:
    method = message.get("method")
    if not isinstance(method, str):
        return {}
    headers = {"Mcp-Method": method}
    params = message.get("params") or {}
    name = params.get(NAMED[method]) if method in NAMED else None
    if isinstance(name, str):
        headers["Mcp-Name"] = encode_header_text(name)
    return headers


def of_arguments(schema: JSON, arguments: dict[str, JSON]) -> dict[str, str]:
    """The headers for the marked arguments that have a value. Raises BadMark."""
    headers = {}
    for name, path in marks(schema).items():
        value: JSON = arguments
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            headers[f"Mcp-Param-{name}"] = encode_header_text(format_header_value(value))
    return headers


def marks(schema: JSON) -> dict[str, tuple[str, ...]]:
    """Header name → path of the property. Raises BadMark."""
    paths: dict[str, tuple[str, ...]] = {}
    reached = 0
    for path, rule in properties(schema):
        if MARK not in rule:
            continue
        reached += 1
        name = rule[MARK]
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            raise BadMark(f"The header name of “{path[-1]}” is not valid.")
        if rule.get("type") not in ("string", "integer", "boolean"):
            raise BadMark(f"“{path[-1]}” has a header but is not a string, an integer or a boolean.")
        if name.lower() in map(str.lower, paths):
            raise BadMark(f"Two properties have the header “{name}”.")
        paths[name] = path
    if reached != count_header_marks(schema):
        raise BadMark("A header belongs to a property that cannot be reached through `properties` alone.")
    return paths


def properties(schema: JSON, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, JSON]]]:
    """Every property that is reached through `properties` alone. Schemas have a bounded depth."""
    rules = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(rules, dict):
        return
    for name, rule in rules.items():
        if isinstance(rule, dict):
            place = (*path, name)
            yield place, rule
            yield from properties(rule, place)


def count_header_marks(value: JSON) -> int:
    """Marks anywhere in a schema. A property that is itself called `x-mcp-header` has an object as its value."""
    if isinstance(value, list):
        return sum(map(count_header_marks, value))
    if not isinstance(value, dict):
        return 0
    count = sum(map(count_header_marks, value.values()))
    if MARK in value and not isinstance(value[MARK], dict):
        count += 1
    return count


def format_header_value(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > SAFE_INTEGER:
        raise BadMark("An integer is too large for a header.")
    return str(value)


def encode_header_text(text: str) -> str:
    """The text as a header value: Base64 if it is not plain ASCII."""
    looks_encoded = text.startswith("=?base64?") and text.endswith("?=")
    if PLAIN.fullmatch(text) and not looks_encoded:
        return text
    encoded = b64encode(text.encode("utf-8", "replace"))
    return f"=?base64?{encoded.decode()}?="
