"""The JSON types of a definition's fields, from the columns of its row."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import models

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list",
         dict: "a mapping"}  # fmt: skip
SHARED: dict[str, Any] = {"team": (str, True), "draft": (bool,), "live": (dict,)}


def faults(definition: Mapping[str, Any], shapes: Mapping[str, Any], place: str = "") -> list[dict[str, str]]:
    """One detail for each field whose value has another type. A field that is unknown is not looked
    at: see agents/unknown.py.
    """
    return [
        {"field": f"{place}{name}", "code": "invalid", "message": f"This must be {WORDS[shapes[name][0]]}."}
        for name, value in definition.items()
        if name in shapes and not fits(value, *shapes[name])
    ]


def fits(value: Any, kind: type, may_be_null: bool = False) -> bool:
    if value is None:
        return may_be_null
    if kind is list:
        return isinstance(value, list)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def column_shapes(model: Any, columns: Iterable[str]) -> dict[str, tuple[type, bool]]:
    """(type, whether it may be null) of each column."""
    fields = {name: model._meta.get_field(name) for name in columns}
    return {name: (json_type(field), bool(field.null)) for name, field in fields.items()}


def json_type(field: Any) -> type:
    if isinstance(field, models.JSONField):
        return list if isinstance(field.get_default(), list) else dict
    if isinstance(field, models.BooleanField):
        return bool
    if isinstance(field, models.IntegerField):
        return int
    return float if isinstance(field, models.FloatField) else str


def not_texts(definition: Mapping[str, Any], names: Iterable[str], place: str = "") -> list[dict[str, str]]:
    """Details for lists that contain something else than texts."""
    return [
        {"field": f"{place}{name}", "code": "invalid", "message": "This must be a list of texts."}
        for name in names
        if isinstance(definition.get(name), list) and not all(isinstance(one, str) for one in definition[name])
    ]
