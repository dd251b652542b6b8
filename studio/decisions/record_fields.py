"""The form of a record: one field for each argument of the tool that writes its kind."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from devices.models import Record
from devices.records.shapes import Shape

from ..labels import render_label

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
        """Lines of the input: as many as the text takes, at about 90 letters a line."""
        line_count = self.value.count("\n") + 2 + len(self.value) // 90
        return max(4, min(16, line_count))


def make_fields(shape: Shape, values: dict[str, JSON], user: Any) -> list[Field]:
    """The fields of a record's form; `values` are what the person typed or what is stored."""
    properties = shape.update.input_schema["properties"]
    # The tool names the record by this argument; the page does by its address.
    names = [name for name in properties if name != shape.id_argument]
    return [make_field(shape, name, properties[name], values, user) for name in names]


def make_field(shape: Shape, name: str, schema: dict[str, JSON], values: dict[str, JSON], user: Any) -> Field:
    choices = find_choices(name, schema, user)
    if choices:
        kind = "choice"
    elif name in LONG:
        kind = "long"
    else:
        kind = "date" if name.endswith("_date") else "text"
    create_schema = shape.create.input_schema
    default = create_schema["properties"][name].get("default", "")
    value = format_field_text(values.get(name, default))
    help = str(HELP.get(name, ""))
    return Field(name, label(name), kind, value, help, choices, is_required=name in create_schema["required"])


def find_choices(name: str, schema: dict[str, JSON], user: Any) -> tuple[tuple[str, str], ...]:
    """The (value, label) pairs that a field offers; empty for a field in which people write."""
    if name == "project_id":
        projects = Record.objects.visible_to(user).filter(kind="project").order_by("-updated_at")
        pairs = [(str(project.pk), str(project)) for project in projects[:PROJECTS]]
        return (("", _("none")), *pairs)
    return tuple((value, render_label(value)) for value in schema.get("enum", ()) if value is not None)


def label(name: str) -> str:
    return str(LABELS.get(name, "")) or name.replace("_", " ").capitalize()


def format_field_text(value: JSON) -> str:
    if isinstance(value, list):
        return ", ".join(str(entry) for entry in value)
    return "" if value is None else str(value)


def as_shown(name: str, value: JSON) -> str:
    """A value of this field in the person's language, if it is one of a few."""
    if name in CHOSEN:
        return render_label(value)
    return format_field_text(value)


def read_typed(post: QueryDict, fields: Iterable[Field]) -> dict[str, JSON]:
    """What the person typed, as the tools take it."""
    values = {}
    for field in fields:
        if field.name in post:
            values[field.name] = parse_field_value(field.name, str(post[field.name]))
    return values


def parse_field_value(name: str, text: str) -> JSON:
    if name in LISTS:
        words = [word.strip() for word in text.split(",")]
        return [word for word in words if word]
    # Browsers send the ends of lines as CRLF.
    return text.replace("\r\n", "\n")
