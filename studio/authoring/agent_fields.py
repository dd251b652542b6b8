"""The options of an agent or a chain as fields of its page in the studio."""

import json
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as later

from agents.models.options import find_control, find_options

# name, label, help. A name with a dot leads into an object.
MODEL_PARAMS = [
    ("model_params.temperature", later("Temperature"), later("0 to 2. Empty: the provider decides.")),
    ("model_params.top_p", later("Top p"), later("0 to 1. Empty: the provider decides.")),
    ("model_params.max_tokens", later("Longest answer"), later("In tokens. Empty: the provider decides.")),
]


@dataclass(frozen=True, slots=True)
class Field:
    """Its name and value are those of the API. Kinds: see agents.models.options."""

    name: str
    label: Any
    kind: str
    help: Any
    value: str
    choices: list[tuple[str, str]]

    @property
    def id(self) -> str:
        return f"f-{self.name.replace('.', '-')}"


def fields_by_tab(row: Any) -> dict[str, list[Field]]:
    """The fields of each tab with the row's values as texts."""
    tabs: dict[str, list[Field]] = {}
    for column in find_options(row.__class__).values():
        tab = column.option.tab
        # Options without a tab are set over the API only.
        if tab:
            fields = tabs.setdefault(tab, [])
            fields.append(make_field(row, column))
    return tabs


def make_field(row: Any, column: Any) -> Field:
    option = column.option
    kind = find_control(column)
    value = text_for_form(getattr(row, column.name), kind)
    return Field(column.name, option.label, kind, option.help, value, column.choices or [])


def make_model_param_fields(agent: Any) -> list[Field]:
    """The parameters of its model that the page offers."""
    fields = []
    for name, label, help in MODEL_PARAMS:
        _object, _dot, key = name.partition(".")
        value = text_for_form(agent.model_params.get(key), "number")
        fields.append(Field(name, label, "number", help, value, []))
    return fields


def text_for_form(value: Any, kind: str) -> str:
    """What stands in the field of this kind."""
    if value is None or value == {}:
        return ""
    if kind == "lines":
        return "\n".join(value)
    if kind in ("schema", "json"):
        return json.dumps(value, indent=2, ensure_ascii=False)
    return str(value)
