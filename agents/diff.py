"""Differences between two texts, or between two specs."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import zip_longest
from typing import Any, Literal

import yaml

from plumbing.untrusted import parse_in_child

from .schema import canonical_json

# Unchanged lines shown around a change.
CONTEXT = 3
# Pairs of lines that may be compared in a serving process.
SHORT = 40_000
# Characters of a spec that may be written as YAML in a serving process.
SHORT_SPEC = 20_000
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
        return [Row(**row) for row in parse_in_child.run_reader_task("side_by_side", old, new)]
    except parse_in_child.TooMuch:
        return [Row("skipped", None, TOO_DIFFERENT, None, "")]


def is_short(old: str, new: str) -> bool:
    """With many equal lines, comparing takes the product of both numbers of lines."""
    comparisons = len(old.splitlines()) * len(new.splitlines())
    return comparisons <= SHORT


def side_by_side_here(old: str, new: str) -> list[Row]:
    left = old.splitlines()
    right = new.splitlines()
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    rows: list[Row] = []
    for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        if tag == "equal":
            same_rows = []
            shift = right_start - left_start
            for place in range(left_start, left_end):
                same_rows.append(Row("same", place + 1, left[place], place + shift + 1, right[place + shift]))
            rows += fold_rows(same_rows)
        else:
            rows += changed_rows(left, right, range(left_start, left_end), range(right_start, right_end))
    return rows


def changed_rows(left: list[str], right: list[str], i: range, j: range) -> Iterator[Row]:
    """The lines `i` of the left text beside the lines `j` of the right one; the longer side goes on alone."""
    for left_place, right_place in zip_longest(i, j):
        if left_place is None:
            yield Row("added", None, "", right_place + 1, right[right_place])
        elif right_place is None:
            yield Row("removed", left_place + 1, left[left_place], None, "")
        else:
            yield Row("changed", left_place + 1, left[left_place], right_place + 1, right[right_place])


def fold_rows(rows: list[Row]) -> list[Row]:
    """Equal lines with only the first and the last of them shown, if there are many."""
    hidden_count = len(rows) - 2 * CONTEXT
    # To hide a single line takes as much room as the line.
    if hidden_count <= 1:
        return rows
    note = Row("skipped", None, f"{hidden_count} unchanged lines", None, "")
    return [*rows[:CONTEXT], note, *rows[-CONTEXT:]]


def diff_texts(old: str, new: str, old_name: str, new_name: str) -> str:
    """The difference in the format of `diff -u`."""
    if is_short(old, new):
        return diff_texts_here(old, new, old_name, new_name)
    try:
        text: str = parse_in_child.run_reader_task("unified", old, new, old_name, new_name)
    except parse_in_child.TooMuch:
        return TOO_DIFFERENT
    return text


def diff_texts_here(old: str, new: str, old_name: str, new_name: str) -> str:
    lines = unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="")
    return "\n".join(lines)


def render_spec(spec: dict[str, Any]) -> str:
    """A spec as readable YAML: keys sorted, long texts as blocks; one that is too long for that as JSON."""
    plain = canonical_json(spec)
    if len(plain) <= SHORT_SPEC:
        return text_here(spec)
    try:
        text: str = parse_in_child.run_reader_task("as_text", spec)
    except parse_in_child.TooMuch:
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
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new else [{"path": path, "from": old, "to": new}]
    differences: list[dict[str, Any]] = []
    for key in sorted(old.keys() | new.keys()):
        key_path = f"{path}.{key}".strip(".")
        differences += changes(old.get(key), new.get(key), key_path)
    return differences
