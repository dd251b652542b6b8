"""Reads SKILL.md by the rules of the Agent Skills specification (agentskills.io/specification)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_noop as _

from agents.exceptions import Invalid, TooLarge
from knowledge.models.skill import NAME, TEXT
from plumbing.untrusted import parse_in_child

# Characters of the front matter.
FRONT = 16_000
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
LONGEST = {"name": 64, "description": 1024, "license": 500, "compatibility": 500, "allowed-tools": 2000}
FENCED = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?(.*)\Z", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """`front` has the fields of the front matter; `body` is the Markdown below it."""

    front: dict[str, Any]
    body: str

    @property
    def name(self) -> str:
        return self.front["name"]

    @property
    def description(self) -> str:
        return self.front["description"]


def parse_skill_document(text: str, folder: str = "") -> Document:
    """SKILL.md in parts. `folder` is the name of its folder, which must be that of the skill; "" if it has none.

    Raises Invalid with one detail for each problem, TooLarge.
    """
    if len(text) > TEXT:
        raise TooLarge(
            _("SKILL.md has more than %(number)s characters.") % {"number": TEXT},
            hint=_("Move details to files that it refers to."),
        )
    front, body = split_front_matter(text)
    problems = [*iterate_front_problems(front), *iterate_folder_problems(front, folder)]
    if problems:
        details = [{"field": field, "code": "invalid", "message": message} for field, message in problems]
        first = details[0]
        raise Invalid(
            _("SKILL.md is not a skill: %(message)s") % {"message": first["message"]},
            code="invalid_skill",
            details=details,
        )
    if "metadata" in front:
        metadata = front["metadata"] or {}
        front["metadata"] = {str(key): format_front_value(value) for key, value in metadata.items()}
    return Document(front, body)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """(fields, Markdown). YAML of strangers is read in a process with limits. Raises Invalid."""
    match = FENCED.match(text)
    if "\0" in text or match is None or len(match[1]) > FRONT:
        hint = "Begin SKILL.md with ---, the fields name and description as YAML, and --- again."
        raise Invalid(_("SKILL.md has no front matter."), code="invalid_skill", hint=hint)
    try:
        front = parse_in_child.run_reader_task("yaml", match[1])
    except (parse_in_child.Refused, parse_in_child.TooMuch) as error:
        hint = "Put texts with a colon in quotes."
        raise Invalid(
            _("The front matter of SKILL.md is not YAML: %(error)s") % {"error": error}, code="invalid_skill", hint=hint
        )
    if not isinstance(front, dict):
        raise Invalid(_("The front matter of SKILL.md must be fields with values."), code="invalid_skill")
    return front, match[2]


def iterate_front_problems(front: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for field in front:
        if field not in FIELDS:
            yield str(field)[:60], f"“{str(field)[:60]}” is not a field of skills; there are {', '.join(FIELDS)}."
    for field in ("name", "description"):
        if not isinstance(front.get(field), str) or not front[field].strip():
            yield field, f"It needs the field {field}, a text."
    for field, most in LONGEST.items():
        value = front.get(field)
        if value is not None and not isinstance(value, str):
            yield field, f"The field {field} must be a text."
        elif value is not None and not 0 < len(value) <= most:
            yield field, f"The field {field} must have 1 to {most} characters."
    name = front.get("name")
    if isinstance(name, str) and name and not NAME.fullmatch(name):
        yield "name", "The name has lower-case letters, digits, and single hyphens between them."
    metadata = front.get("metadata")
    if metadata is not None and not is_flat(metadata):
        yield "metadata", "The field metadata must have texts as values."


def iterate_folder_problems(front: dict[str, Any], folder: str) -> Iterator[tuple[str, str]]:
    name = front.get("name")
    if folder and isinstance(name, str) and name != folder:
        yield "name", f"The name “{name[:64]}” must be that of its folder, “{folder[:64]}”."


def is_flat(metadata: Any) -> bool:
    if not isinstance(metadata, dict):
        return False
    return not any(isinstance(value, dict | list) for value in metadata.values())


def format_front_value(value: Any) -> str:
    """As YAML writes it: for Python, true would be “True”."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
