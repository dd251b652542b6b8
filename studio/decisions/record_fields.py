"""The form of a record: one field for each argument of the tool that writes its kind."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from devices.models import Record
from devices.records.shapes import Shape

from ..labels import words

LONG = {"description", "content"}
LISTS = {"assignees", "tags"}
CHOSEN = {"state", "status", "priority"}
LABELS = {
    "project_id": later("Project"), "assignees": later("Assignees"), "due_date": later("Due"), "tags": later("Tags"),
    "title": later("Title"), "description": later("Description"), "status": later("Status"),
    "content": later("Content"), "priority": later("Priority"), "start_date": later("Start"),
    "end_date": later("End"), "name": later("Name"), "text": later("Text"), "state": later("State"),
}  # fmt: skip
HELP = {
    "assignees": later("Names or addresses, separated by commas."), "tags": later("Words, separated by commas."),
}  # fmt: skip
PROJECTS = 300
JSON = Any


@dataclass(frozen=True, slots=True)
class Field:
    """One input. `kind` is text, long, date or choice; `choices` are (value, label)."""

    name: str
    label: str
    kind: str
    value: str
    help: str
    choices: tuple[tuple[str, str], ...] = ()
    is_required: bool = False

    @property
    def rows(self) -> int:
        return max(4, min(16, self.value.count("\n") + 2 + len(self.value) // 90))


def make_fields(shape: Shape, values: dict[str, JSON], user: Any) -> list[Field]:
    """The fields of an existing record; `values` are what the person typed or what is stored."""
    schema = shape.update.input_schema["properties"]
    return [make_field(shape, name, schema[name], values, user) for name in schema if name != shape.id_argument]


def make_field(shape: Shape, name: str, schema: dict[str, JSON], values: dict[str, JSON], user: Any) -> Field:
    choices = find_choices(name, schema, user)
    kind = "choice" if choices else "long" if name in LONG else "date" if name.endswith("_date") else "text"
    default = shape.create.input_schema["properties"][name].get("default", "")
    return Field(
        name, label(name), kind, as_text(values.get(name, default)), str(HELP.get(name, "")), choices,
        name in shape.create.input_schema["required"],
    )  # fmt: skip


def find_choices(name: str, schema: dict[str, JSON], user: Any) -> tuple[tuple[str, str], ...]:
    if name == "project_id":
        projects = Record.objects.visible_to(user).filter(kind="project").order_by("-updated_at")[:PROJECTS]
        return (("", _("none")), *((str(one.pk), str(one)) for one in projects))
    return tuple((value, words(value)) for value in schema.get("enum", ()) if value is not None)


def label(name: str) -> str:
    return str(LABELS.get(name, "")) or name.replace("_", " ").capitalize()


def as_text(value: JSON) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value if value is not None else "")


def as_shown(name: str, value: JSON) -> str:
    """A value of this field in the person's language, if it is one of a few."""
    return words(value) if name in CHOSEN else as_text(value)


def read_typed(post: QueryDict, fields: Iterable[Field]) -> dict[str, JSON]:
    """What the person typed, as the tools take it."""
    return {one.name: read_value(one.name, str(post[one.name])) for one in fields if one.name in post}


def read_value(name: str, text: str) -> JSON:
    if name in LISTS:
        return [word.strip() for word in text.split(",") if word.strip()]
    return text.replace("\r\n", "\n")
