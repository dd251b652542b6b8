"""Differences between two texts, or between two specs."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from typing import Any, Literal

import yaml

from plumbing.untrusted import apart

from .schema import canonical_json

CONTEXT = 3  # unchanged lines shown around a change
SHORT = 40_000  # pairs of lines that may be compared in a serving process
SHORT_SPEC = 20_000  # characters of a spec that may be written as YAML in a serving process
TOO_DIFFERENT = "The two have too many differences to be compared line by line."


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a side-by-side view; an empty side has number None."""

    kind: Literal["same", "changed", "added", "removed", "skipped"]
    left_number: int | None
    left: str
    right_number: int | None
    right: str


def side_by_side(old: str, new: str) -> list[Row]:
    """Both texts side by side; long unchanged stretches become one `skipped` row."""
    if is_short(old, new):
        return side_by_side_here(old, new)
    try:
        return [Row(**row) for row in apart.read("side_by_side", old, new)]
    except apart.TooMuch:
        return [Row("skipped", None, TOO_DIFFERENT, None, "")]


def is_short(old: str, new: str) -> bool:
    """With many equal lines, comparing takes the product of both numbers of lines."""
    return len(old.splitlines()) * len(new.splitlines()) <= SHORT


def side_by_side_here(old: str, new: str) -> list[Row]:
    left, right = old.splitlines(), new.splitlines()
    rows: list[Row] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += fold_rows([Row("same", i + 1, left[i], i - i1 + j1 + 1, right[i - i1 + j1]) for i in range(i1, i2)])
        else:
            rows += changed_rows(left, right, range(i1, i2), range(j1, j2))
    return rows


def changed_rows(left: list[str], right: list[str], i: range, j: range) -> Iterator[Row]:
    for step in range(max(len(i), len(j))):
        has_left, has_right = step < len(i), step < len(j)
        kind = "changed" if has_left and has_right else "removed" if has_left else "added"
        yield Row(
            kind,  # type: ignore[arg-type]
            i[step] + 1 if has_left else None,
            left[i[step]] if has_left else "",
            j[step] + 1 if has_right else None,
            right[j[step]] if has_right else "",
        )


def fold_rows(rows: list[Row]) -> list[Row]:
    if len(rows) <= 2 * CONTEXT + 1:
        return rows
    hidden = len(rows) - 2 * CONTEXT
    return [*rows[:CONTEXT], Row("skipped", None, f"{hidden} unchanged lines", None, ""), *rows[-CONTEXT:]]


def diff_texts(old: str, new: str, old_name: str, new_name: str) -> str:
    """The difference in the format of `diff -u`."""
    if is_short(old, new):
        return diff_texts_here(old, new, old_name, new_name)
    try:
        text: str = apart.read("unified", old, new, old_name, new_name)
    except apart.TooMuch:
        return TOO_DIFFERENT
    return text


def diff_texts_here(old: str, new: str, old_name: str, new_name: str) -> str:
    return "\n".join(unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm=""))


def as_text(spec: dict[str, Any]) -> str:
    """A spec as readable YAML: keys sorted, long texts as blocks; one that is too long for that as JSON."""
    plain = canonical_json(spec)
    if len(plain) <= SHORT_SPEC:
        return text_here(spec)
    try:
        text: str = apart.read("as_text", spec)
    except apart.TooMuch:
        return plain
    return text


def text_here(spec: dict[str, Any]) -> str:
    return yaml.dump(spec, Dumper=BlockDumper, sort_keys=True, allow_unicode=True, width=100)


class BlockDumper(yaml.SafeDumper):
    """Texts of several lines are written as `|` blocks, so that a diff shows the changed line."""


def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


BlockDumper.add_representer(str, represent_text)


def changes(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """Every value that differs: {"path": "model_params.temperature", "from": 0.2, "to": 0.7}, in
    order of path.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(set(old) | set(new))
        return [change for key in keys for change in changes(old.get(key), new.get(key), f"{path}.{key}".strip("."))]
    return [] if old == new else [{"path": path, "from": old, "to": new}]
