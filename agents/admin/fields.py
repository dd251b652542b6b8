"""Form fields for JSON columns that are easier to edit in another form, and the forms of options."""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.text import capfirst

from agents.models.options import ADVANCED, GROUPS, find_control, find_options
from agents.schema import check_schema
from plumbing.texts import translate, translate_name


class NamedForm(forms.ModelForm):
    """A field that is written by hand has the label of its column, unless it has one of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            if field.label is None:
                # A field that stands for no column goes without.
                with suppress(FieldDoesNotExist):
                    column: Any = self._meta.model._meta.get_field(name)
                    field.label = capfirst(column.verbose_name)


def translate_choices(choices: list[tuple[Any, Any]]) -> list[tuple[Any, str]]:
    """The choices of a column with their labels in the person's language."""
    return [(value, translate_name(str(label))) for value, label in choices]


class LinesField(forms.CharField):
    """A list of texts, one per line."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("required", False)
        kwargs.setdefault("widget", forms.Textarea(attrs={"rows": 3}))
        super().__init__(**kwargs)

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return "\n".join(str(item) for item in value)

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        if isinstance(value, list):
            return value
        lines = [line.strip() for line in (value or "").splitlines()]
        return [line for line in lines if line]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial or []) != self.to_python(data)


class JsonField(forms.JSONField):
    """JSON in a large, indented text area; empty means none."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("required", False)
        rows = kwargs.pop("rows", 8)
        kwargs.setdefault("widget", forms.Textarea(attrs={"rows": rows, "class": "code", "spellcheck": "false"}))
        super().__init__(**kwargs)

    def prepare_value(self, value: Any) -> Any:
        if value is None:
            return ""
        # What could not be read stays as it was typed: it is a text too.
        if isinstance(value, str):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False)


class SchemaField(JsonField):
    """A JSON Schema: an unusable one is refused with its problems."""

    def clean(self, value: Any) -> Any:
        schema = super().clean(value)
        if schema in (None, ""):
            return None
        problems = check_schema(schema)
        if problems:
            lines = [f"{problem['path'] or '/'}: {translate(problem['message'])}" for problem in problems]
            raise forms.ValidationError(lines)
        return schema


FIELDS: dict[str, Any] = {"lines": LinesField, "schema": SchemaField, "json": partial(JsonField, rows=6)}


def form_field(column: Any) -> forms.Field | None:
    """The field of an option that Django would draw otherwise; None: Django's own."""
    if not hasattr(column, "option"):
        return None
    kind = find_control(column)
    help_text = column.option.admin_help or column.help_text
    words = {"label": capfirst(column.verbose_name), "help_text": help_text}
    if kind in FIELDS:
        return FIELDS[kind](**words)
    # Django draws a large area for every text.
    if kind == "text" and isinstance(column, models.TextField):
        return forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 2}), **words)
    return None


def make_fieldsets(model: Any, instead: Mapping[str, list[str]] | None = None) -> list[Any]:
    """The name and the options of a model under their headings. `instead` names fields that stand for an option."""
    replacements = instead or {}
    names: dict[str, list[str]] = {group: [] for group in GROUPS}
    names[""].append("name")
    for name, column in find_options(model).items():
        group = column.option.group
        if group is not None:
            names[group] += replacements.get(name, [name])
    fieldsets = []
    for group, fields in names.items():
        if fields:
            classes = ["collapse"] if group in ADVANCED else []
            fieldsets.append((GROUPS[group], {"fields": fields, "classes": classes}))
    return fieldsets
