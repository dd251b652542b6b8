"""An option of a definition is declared once: a column of Django, and what its doors say about it beside.

The column gives name, type, default, limits, choices and help; `option` adds the rest. REST and OpenAPI, definition
files, the studio, the admin, versions and docs/reference/options.md are made from both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import pydantic
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as later

# The headings in the admin's forms, in their order; those of ADVANCED are closed at first.
GROUPS: dict[str, Any] = {
    "": None, "Instructions": later("Instructions"), "Model": later("Model"),
    "Models and prices": later("Models and prices"), "Routing": later("Routing"),
    "Imports, hosts and secrets": later("Imports, hosts and secrets"), "Input and output": later("Input and output"),
    "Behaviour": later("Behaviour"), "Session": later("Session"), "Memory": later("Memory"), "Limits": later("Limits"),
    "Queue": later("Queue"), "A2A": later("A2A"), "Use": later("How it may be used"),
    "Definition": later("Definition"), "When": later("When"), "Missed": later("When a start is missed or overlaps"),
}  # fmt: skip
ADVANCED = {
    "Imports, hosts and secrets", "Input and output", "Behaviour", "Session", "Memory", "Limits", "Queue", "A2A",
}  # fmt: skip
Column = TypeVar("Column", bound=models.Field)
POSITIVE = (models.PositiveSmallIntegerField, models.PositiveIntegerField, models.PositiveBigIntegerField)


@dataclass(frozen=True, slots=True)
class Option:
    """What a column of Django does not say."""

    # Of GROUPS: the heading over it in the admin's form; None: it is not there.
    group: str | None
    # Of its page in the studio; "": the page has no field for it, or one of its own.
    tab: str
    # What stands at its field in the studio, and below it.
    label: Any
    help: Any
    # In the admin; "": the help of the column.
    admin_help: Any = ""
    # text, long, number, flag, choice, lines, schema or json; "": what fits the column.
    kind: str = ""
    # Arguments of its field in REST, beyond those of the column.
    rest: Mapping[str, Any] = field(default_factory=dict)
    # Its name in a version; "": its own name.
    stored_as: str = ""
    # The first format of versions that has it; see agents.spec.FORMAT.
    since: int = 1


def option(column: Column, group: str | None, tab: str = "", label: Any = "", help: Any = "", **more: Any) -> Column:
    """The column, declared as an option; the other arguments are the fields of Option."""
    column.option = Option(group, tab, label, help, **more)  # type: ignore[attr-defined]
    return column


def between(low: float | None = None, high: float | None = None) -> list[Any]:
    """The validators of a number within limits."""
    checks: list[Any] = []
    if low is not None:
        checks.append(MinValueValidator(low))
    if high is not None:
        checks.append(MaxValueValidator(high))
    return checks


@cache
def find_options(model: Any) -> dict[str, Any]:
    """The columns that are options, by name, in the order of their declaration."""
    return {column.name: column for column in model._meta.concrete_fields if hasattr(column, "option")}


def find_control(column: Any) -> str:
    """The kind of control that an option has in a form."""
    if column.option.kind:
        return column.option.kind
    if column.choices:
        return "choice"
    if isinstance(column, models.BooleanField):
        return "flag"
    if isinstance(column, models.IntegerField | models.FloatField):
        return "number"
    return "text"


def plain_options(model: Any) -> dict[str, Any]:
    """Those whose values are copied as they are. A row that an option refers to is written by name."""
    return {name: column for name, column in find_options(model).items() if not column.is_relation}


def option_defaults(model: Any) -> dict[str, Any]:
    """The value of each option that was not chosen."""
    return {name: column.get_default() for name, column in plain_options(model).items()}


def find_options_of_kind(model: Any, kind: str) -> list[str]:
    """The names of the options that have this kind of control."""
    options = find_options(model)
    return [name for name, column in options.items() if find_control(column) == kind]


def stored_name(column: Any) -> str:
    """Its name in the spec of a version."""
    return column.option.stored_as or column.name


@cache
def versioned_options(model: Any, spec: Any) -> dict[str, Any]:
    """The options that are part of a version, since its spec has them. The others take effect at once."""
    columns = plain_options(model).items()
    return {name: column for name, column in columns if stored_name(column) in spec.model_fields}


def versioned_values(row: models.Model, spec: Any) -> dict[str, Any]:
    """What the working row says for the options that are part of a version, by their names in the spec."""
    columns = versioned_options(type(row), spec).items()
    return {stored_name(column): getattr(row, name) for name, column in columns}


def spec_field(model: type[models.Model], name: str) -> Any:
    """The field of a spec for a number or a choice: its default and limits are those of the column."""
    column: Any = model._meta.get_field(name)
    limits: dict[str, Any] = {"ge": 0} if isinstance(column, POSITIVE) else {}
    for check in column.deconstruct()[3].get("validators", []):
        if isinstance(check, MinValueValidator):
            limits["ge"] = check.limit_value
        elif isinstance(check, MaxValueValidator):
            limits["le"] = check.limit_value
    default = column.get_default()
    return pydantic.Field(default=str(default) if column.choices else default, **limits)
