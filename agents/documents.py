"""Definitions as YAML text. Scalars are read as JSON would read them, and what YAML accepts
silently but nobody means is refused. Knows no framework, so that it also runs in the process that
reads untrusted texts (plumbing/untrusted/parse_in_child.py).
"""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import yaml

from plumbing.untrusted.parse_in_child import Refused

LONE = re.compile("[\x00\ud800-\udfff]")
NEW_DOCUMENT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
MAX_DEPTH = 50


class Plain(yaml.SafeLoader):
    """A SafeLoader that reads scalars as JSON does: 2026-01-01, 12:30, yes, no, on and off are
    texts. It refuses what YAML would accept silently: a key without a value between braces, which
    is usually a comma in a text without quotes, and a key that occurs twice.
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen_keys = set()
        for key, value in node.value:
            # {a: b, c} between braces: YAML reads c as a key of null.
            is_missing = isinstance(value, yaml.ScalarNode) and value.value == "" and not value.style
            if node.flow_style and is_missing:
                raise make_error(
                    key, f"“{shorten_key(key)}” has no value", "put a text that contains a comma in quotes"
                )
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen_keys:
                    raise make_error(key, f"“{shorten_key(key)}” occurs twice", "remove one of them")
                seen_keys.add(key.value)
        return super().construct_mapping(node, deep)


class Flat(Plain):
    """For texts from users: without aliases, which can expand a few lines to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(None, None, "aliases are not supported", event.start_mark)
        return super().compose_node(parent, index)


def make_error(key: Any, problem: str, hint: str) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, f"{problem}: {hint}", key.start_mark)


def shorten_key(key: Any) -> str:
    return str(key.value)[:60]


def plain_resolvers() -> dict[str, list[tuple[str, Any]]]:
    """The library's rules by first letter, without those for dates, and with JSON's for booleans and numbers."""
    replaced = {
        "tag:yaml.org,2002:bool": re.compile(r"^(true|True|TRUE|false|False|FALSE)$"),
        "tag:yaml.org,2002:int": re.compile(r"^[-+]?(0|[1-9][0-9]*)$"),
    }
    dropped = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value", "tag:yaml.org,2002:merge")
    resolvers: dict[str, list[tuple[str, Any]]] = {}
    for first_letter, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items():
        resolvers[first_letter] = [(tag, replaced.get(tag, pattern)) for tag, pattern in pairs if tag not in dropped]
    return resolvers


Plain.yaml_implicit_resolvers = plain_resolvers()


def read_here(text: str) -> list[Any]:
    """The documents of a text from a user, as JSON values. Raises Refused with line and column."""
    try:
        documents = list(yaml.load_all(text, Loader=Flat))  # noqa: S506  (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        message = str(error.problem or error)[:200]
        mark = error.problem_mark or error.context_mark
        # The library counts from 0.
        line = mark.line + 1 if mark else 1
        column = mark.column + 1 if mark else 1
        raise Refused(message, code="unreadable", line=line, column=column) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise Refused(str(error)[:200], code="unreadable") from None
    for document in documents:
        check_document_value(document)
    return documents


def check_document_value(value: Any, depth: int = 0) -> None:
    """Raises Refused for what JSON or a database cannot hold."""
    if depth > MAX_DEPTH:
        raise Refused(f"It is nested deeper than {MAX_DEPTH} levels.", code="unreadable")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise Refused(f"The key {str(key)[:60]} is not a text: put it in quotes.", code="unreadable")
            check_document_value(key)
            check_document_value(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_document_value(item, depth + 1)
    elif isinstance(value, str):
        if LONE.search(value):
            raise Refused("A text contains a NUL character or a lone surrogate.", code="unreadable")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise Refused(f"{value} is not a number of JSON.", code="unreadable")
    elif not (value is None or isinstance(value, int)):
        raise Refused(f"A {type(value).__name__} is not a value of JSON.", code="unreadable")


def portions(text: str, size: int) -> Iterator[tuple[int, str]]:
    """(lines before it, some whole documents) of at most this size, unless one document is longer. `---` at the
    beginning of a line always starts a document.
    """
    ends = [match.start() for match in NEW_DOCUMENT.finditer(text) if match.start()]
    ends.append(len(text))
    begin = 0
    # A portion ends where the next document would make it too long.
    for end, next_end in pairwise(ends):
        if next_end - begin > size and end > begin:
            yield text.count("\n", 0, begin), text[begin:end]
            begin = end
    if begin < len(text):
        yield text.count("\n", 0, begin), text[begin:]
