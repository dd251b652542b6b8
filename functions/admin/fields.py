"""Widgets and forms: a code editor, and a form generated from a JSON Schema."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as later

from agents.admin.fields import JsonField, SchemaField

EDITOR = forms.Media(css={"all": ["editor/editor.css"]}, js=["editor/editor.js"])
PREFIX = "arg-"


class CodeWidget(forms.Textarea):
    """A text area that the browser turns into a code editor; without JavaScript it stays a plain
    text area.
    """

    def __init__(self, language: str, *, rows: int = 12, validate: str = "", label: Any = "") -> None:
        attrs = {
            "data-editor": language,
            "data-shadow": "yes",
            "rows": rows,
            "spellcheck": "false",
            "class": "code",
            "data-label": label,
        }
        if validate:
            attrs["data-validate"] = validate
        super().__init__(attrs=attrs)

    @property
    def media(self) -> forms.Media:
        return EDITOR


class SchemaEditor(SchemaField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=CodeWidget("json", rows=8), **kwargs)


class ArgumentsForm(forms.Form):
    """One field for each property of an input schema. A property too complex for a form field is
    entered as JSON.
    """

    def __init__(self, schema: dict[str, Any], *args: Any, order: Iterable[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.schema = schema
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        for name, part in sort_properties(properties, order):
            if not isinstance(part, dict):
                part = {}
            self.fields[PREFIX + name] = build_form_field(name, part, name in required)
        if not self.fields:
            self.fields["arguments"] = JsonField(rows=6, label=later("Arguments"), help_text=later("A JSON object."))

    def arguments(self) -> dict[str, Any]:
        """The entered values; an optional field that was left empty is omitted."""
        if "arguments" in self.fields:
            return self.cleaned_data["arguments"] or {}
        values = {}
        for field, value in self.cleaned_data.items():
            name = field.removeprefix(PREFIX)
            if value not in (None, "") or self.is_empty_text(name, value):
                values[name] = value
        return values

    def is_empty_text(self, name: str, value: Any) -> bool:
        """A required text field may contain an empty string."""
        required = self.schema.get("required", [])
        return value == "" and name in required


def sort_properties(properties: dict[str, Any], order: Iterable[str]) -> list[tuple[str, Any]]:
    """The arguments in the order of the signature; PostgreSQL does not keep the order of an
    object's keys.
    """
    names = [name for name in order if name in properties]
    names += [name for name in properties if name not in names]
    return [(name, properties[name]) for name in names]


def build_form_field(name: str, schema: dict[str, Any], is_required: bool) -> forms.Field:
    kind = schema.get("type")
    help_text = schema.get("description", "")
    common: dict[str, Any] = {"label": name, "help_text": help_text, "initial": schema.get("default")}
    options = schema.get("enum")
    if isinstance(options, list) and all(isinstance(option, str) for option in options):
        choices = [(option, option) for option in options]
        if not is_required:
            choices.insert(0, ("", "—"))
        return forms.ChoiceField(choices=choices, required=is_required, **common)
    if kind == "boolean":
        # An unchecked box is not sent, so it cannot be required.
        return forms.BooleanField(required=False, **common)
    if kind == "integer":
        return forms.IntegerField(required=is_required, **common)
    if kind == "number":
        return forms.FloatField(required=is_required, widget=forms.TextInput, **common)
    if kind == "string":
        widget = forms.Textarea(attrs={"rows": 2, "placeholder": schema.get("format", "")})
        return forms.CharField(required=False, strip=False, widget=widget, **common)
    common["help_text"] = f"{help_text} (JSON)".strip()
    return JsonField(rows=3, required=is_required, **common)
