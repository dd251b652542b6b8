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
        super().__init__(attrs={**attrs, **({"data-validate": validate} if validate else {})})

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
        for name, part in sort_properties(schema.get("properties", {}), order):
            self.fields[PREFIX + name] = build_form_field(
                name, part if isinstance(part, dict) else {}, name in required
            )
        if not self.fields:
            self.fields["arguments"] = JsonField(rows=6, label=later("Arguments"), help_text=later("A JSON object."))

    def arguments(self) -> dict[str, Any]:
        """The entered values; an optional field that was left empty is omitted."""
        if "arguments" in self.fields:
            return self.cleaned_data["arguments"] or {}
        values = {name.removeprefix(PREFIX): value for name, value in self.cleaned_data.items()}
        return {
            name: value for name, value in values.items() if value not in (None, "") or self.is_empty_text(name, value)
        }

    def is_empty_text(self, name: str, value: Any) -> bool:
        """A required text field may contain an empty string."""
        return value == "" and name in self.schema.get("required", [])


def sort_properties(properties: dict[str, Any], order: Iterable[str]) -> list[tuple[str, Any]]:
    """The arguments in the order of the signature; PostgreSQL does not keep the order of an
    object's keys.
    """
    names = [name for name in order if name in properties]
    return [(name, properties[name]) for name in [*names, *(name for name in properties if name not in names)]]


def build_form_field(name: str, schema: dict[str, Any], is_required: bool) -> forms.Field:
    kind = schema.get("type")
    initial = schema.get("default")
    common: dict[str, Any] = {"label": name, "help_text": schema.get("description", ""), "initial": initial}
    if isinstance(schema.get("enum"), list) and all(isinstance(value, str) for value in schema["enum"]):
        choices = [(value, value) for value in schema["enum"]]
        return forms.ChoiceField(
            choices=choices if is_required else [("", "—"), *choices],
            required=is_required, **common,
        )  # fmt: skip
    if kind == "boolean":
        return forms.BooleanField(required=False, **common)
    if kind == "integer":
        return forms.IntegerField(required=is_required, **common)
    if kind == "number":
        return forms.FloatField(required=is_required, widget=forms.TextInput, **common)
    if kind == "string":
        hint = {"placeholder": schema.get("format", "")}
        return forms.CharField(
            required=False, strip=False, widget=forms.Textarea(attrs={"rows": 2, **hint}), **common
        )  # fmt: skip
    return JsonField(rows=3, required=is_required, **{**common, "help_text": f"{common['help_text']} (JSON)".strip()})
