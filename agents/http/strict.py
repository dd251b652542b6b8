"""Serializers that do not coerce types and that refuse unknown fields, naming the field that was
probably meant, or else every field.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from agents.fields import OUT_OF_RANGE, is_usual
from agents.schema import check_schema
from agents.unknown import unknown_names

NOT_ONE_OF = _("“{input}” is not one of {choices}.")
OBJECT = {"type": "object", "additionalProperties": True}


class Text(serializers.CharField):
    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Pattern(Text, serializers.RegexField):
    """A text of one form."""


class Choice(serializers.ChoiceField):
    default_error_messages = {"invalid_choice": NOT_ONE_OF}

    def to_internal_value(self, data: Any) -> str:
        is_choice = isinstance(data, str) and data in self.choice_strings_to_values
        is_allowed_blank = data == "" and self.allow_blank
        if is_choice or is_allowed_blank:
            return super().to_internal_value(data)
        self.fail("invalid_choice", input=shorten_json(data), choices=join_choices(self.choices))


def join_choices(choices: Iterable[Any]) -> str:
    """Texts of a closed list, for the message that refuses another one."""
    texts = [str(choice) for choice in choices if choice not in ("", None)]
    return ", ".join(texts)


def shorten_json(data: Any) -> str:
    """A value as JSON, as far as a message needs it."""
    text = data if isinstance(data, str) else json.dumps(data, default=str)
    return text[:60]


class Whole(serializers.IntegerField):
    def to_internal_value(self, data: Any) -> int:
        # JSON knows no whole numbers: 3.0 is one.
        has_fraction = isinstance(data, float) and not data.is_integer()
        if isinstance(data, bool | str) or has_fraction:
            self.fail("invalid")
        return super().to_internal_value(data)


@extend_schema_field(OpenApiTypes.STR)
class RowId(serializers.Field):
    """The id of a row as a string, since clients must not depend on its format. Numbers are
    accepted too.
    """

    default_error_messages = {"invalid": "This is not a valid id."}

    def to_representation(self, value: int) -> str:
        return str(value)

    def to_internal_value(self, data: Any) -> int:
        # True is an int in Python.
        if isinstance(data, bool) or not isinstance(data, int | str):
            self.fail("invalid")
        text = str(data)
        is_number = text.isascii() and text.isdigit() and len(text) < 19
        if not is_number or int(text) == 0:
            self.fail("invalid")
        return int(text)


class Number(serializers.FloatField):
    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        try:
            return float(data)
        except OverflowError:
            self.fail("invalid")


class Flag(serializers.BooleanField):
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Moment(serializers.DateTimeField):
    """A date and time within the range that every time zone can represent."""

    default_error_messages = {"out_of_range": OUT_OF_RANGE}

    def to_internal_value(self, value: Any) -> datetime:
        try:
            moment = super().to_internal_value(value)
        except OverflowError:
            self.fail("out_of_range")
        aware_moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if not is_usual(aware_moment):
            self.fail("out_of_range")
        return moment


class LocalMoment(Moment):
    """A moment that may be sent without an offset; the serializer then knows the time zone. Such a
    value has no zone yet.
    """

    def enforce_timezone(self, value: datetime) -> datetime:
        if value.tzinfo is None:
            return value
        return super().enforce_timezone(value)


class Many(serializers.ListField):
    """A list whose length is checked before its elements: each of half a million wrong ones would be reported."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list) and self.max_length is not None and len(data) > self.max_length:
            self.fail("max_length", max_length=self.max_length)
        return super().to_internal_value(data)


class Named(serializers.DictField):
    """An object of values by their names, at most `most`."""

    default_error_messages = {"max_length": Many.default_error_messages["max_length"]}

    def __init__(self, *, most: int, **kwargs: Any) -> None:
        self.most = most
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, dict) and len(data) > self.most:
            self.fail("max_length", max_length=self.most)
        return super().to_internal_value(data)


class Words(Many):
    """A list of texts."""

    def __init__(self, *, each: int = 200, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", 100)
        super().__init__(child=Text(max_length=each), **kwargs)


@extend_schema_field({**OBJECT, "description": "A JSON Schema (2020-12) without remote references."})
class SchemaField(serializers.JSONField):
    """A JSON Schema; each problem names its place in the schema."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        problems = check_schema(data)
        if problems:
            raise serializers.ValidationError([f"{entry['path'] or '/'}: {entry['message']}" for entry in problems])
        return data


class OptionalSchemaField(SchemaField):
    """A JSON Schema, or null for none."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "allow_null": True, **kwargs})


@extend_schema_field(OBJECT)
class ObjectField(serializers.JSONField):
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Send a JSON object.", code="invalid")
        return data


REQUIRED = "This field is required."


class KnownFields:
    """Refuses fields that do not exist, which would otherwise be lost without a word.

    Fields that can only be read may be sent back, so that a client can change the body of a GET and
    send it as a PUT; they change nothing. `echoed` names such fields of other paths' answers.
    """

    echoed: tuple[str, ...] = ()
    parent: Any
    root: Any
    fields: Mapping[str, serializers.Field]

    def to_internal_value(self, data: Any) -> Any:
        faults: dict[str, Any] = {}
        if isinstance(data, Mapping):
            faults = {**self.unknown(data), **self.left_out(data)}
        try:
            value = super().to_internal_value(data)  # type: ignore[misc]
        except serializers.ValidationError as error:
            if not faults:
                raise
            # All problems at once, so that a client mends them in one go.
            raise serializers.ValidationError({**faults, **dict(error.detail)})  # type: ignore[arg-type]
        if faults:
            raise serializers.ValidationError(faults)
        return value

    def left_out(self, data: Mapping[str, Any]) -> dict[str, list[ErrorDetail]]:
        """A PATCH may leave out fields of the row. A nested value replaces the old one, so it must
        be complete.
        """
        is_nested = self.parent is not None
        if not is_nested or not getattr(self.root, "partial", False):
            return {}
        problems: dict[str, list[ErrorDetail]] = {}
        for name, field in self.fields.items():
            if field.required and not field.read_only and name not in data:
                problems[name] = [ErrorDetail(REQUIRED, "required")]
        return problems

    def unknown(self, data: Mapping[str, Any]) -> dict[str, list[ErrorDetail]]:
        """One problem for each of the first twenty names that are not names of fields."""
        if data.keys() <= self.fields.keys():
            return {}
        unknown = [name for name in data if name not in self.fields and name not in self.echoed]
        writable = [name for name, field in self.fields.items() if not field.read_only]
        messages = unknown_names(unknown, "field", writable, sent=data)
        return {name[:100]: [ErrorDetail(message, "unknown_field")] for name, message in messages.items()}


def without_echo(sent: Any, answered: Mapping[str, Any], fixed: Iterable[str]) -> Any:
    """A change without the fields that cannot be changed, as far as they are sent back as they were answered."""
    if not isinstance(sent, Mapping):
        return sent
    echo = {name for name in fixed if name in sent and sent[name] == answered.get(name)}
    return {name: value for name, value in sent.items() if name not in echo}


class StrictSerializer(KnownFields, serializers.Serializer):
    """A Serializer for bodies."""


class StrictModelSerializer(KnownFields, serializers.ModelSerializer):
    """A ModelSerializer with the strict fields above.

    PUT replaces the row: fields that it leaves out get their defaults, except those that cannot be
    read, such as secrets, and those in `compared`, which are not stored as sent. A PATCH merges.
    """

    compared: tuple[str, ...] = ()

    @property
    def replaces(self) -> bool:
        return self.parent is None and getattr(self.context.get("request"), "method", "") == "PUT"

    def to_internal_value(self, data: Any) -> Any:
        value = super().to_internal_value(data)
        if not self.replaces:
            return value
        return {**self.defaults(value), **value}

    def defaults(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        """The model's defaults of columns that were not sent."""
        columns = {column.name: column for column in self.Meta.model._meta.concrete_fields}  # type: ignore[attr-defined]
        values: dict[str, Any] = {}
        for name, field in self.fields.items():
            if field.read_only or field.write_only or name in self.compared:
                continue
            column_name = field.source.split(".")[0]
            if column_name in columns and column_name not in sent:
                values[column_name] = columns[column_name].get_default()
        return values

    serializer_choice_field = Choice
    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.CharField: Text,
        models.SlugField: Text,
        models.TextField: Text,
        models.BooleanField: Flag,
        models.DateTimeField: Moment,
        models.FloatField: Number,
        models.IntegerField: Whole,
        models.BigIntegerField: Whole,
        models.PositiveIntegerField: Whole,
        models.PositiveSmallIntegerField: Whole,
        models.PositiveBigIntegerField: Whole,
    }
