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
    details: list[dict[str, str]] = []
    for name, value in definition.items():
        if name not in shapes or fits(value, *shapes[name]):
            continue
        kind = WORDS[shapes[name][0]]
        details.append({"field": f"{place}{name}", "code": "invalid", "message": f"This must be {kind}."})
    return details


def fits(value: Any, kind: type, may_be_null: bool = False) -> bool:
    if value is None:
        return may_be_null
    if kind is list:
        return isinstance(value, list)
    # True and False are whole numbers in Python, and no numbers in JSON.
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, kind)


def column_shapes(model: Any, columns: Iterable[str]) -> dict[str, tuple[type, bool]]:
    """(type, whether it may be null) of each column."""
    column_types = {}
    for name in columns:
        field = model._meta.get_field(name)
        column_types[name] = (json_type(field), bool(field.null))
    return column_types


def json_type(field: Any) -> type:
    if isinstance(field, models.JSONField):
        return list if isinstance(field.get_default(), list) else dict
    if isinstance(field, models.BooleanField):
        return bool
    if isinstance(field, models.IntegerField):
        return int
    if isinstance(field, models.FloatField):
        return float
    return str


def not_texts(definition: Mapping[str, Any], names: Iterable[str], place: str = "") -> list[dict[str, str]]:
    """Details for lists that contain something else than texts."""
    details: list[dict[str, str]] = []
    for name in names:
        values = definition.get(name)
        if isinstance(values, list) and not all(isinstance(value, str) for value in values):
            details.append({"field": f"{place}{name}", "code": "invalid", "message": "This must be a list of texts."})
    return details
