"""Serializers that take a body as what it is: "12" is no number, "yes" is no truth, what nobody knows is no field."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from django.db import models
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from agents.schema import check_schema

OBJECT = {"type": "object", "additionalProperties": True}


class Text(serializers.CharField):
    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Choice(serializers.ChoiceField):
    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=data)
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool | str) or (isinstance(data, float) and not data.is_integer()):
            self.fail("invalid")
        return super().to_internal_value(data)


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


class Words(serializers.ListField):
    """A list of texts."""

    def __init__(self, *, each: int = 200, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", 100)
        super().__init__(child=Text(max_length=each), **kwargs)


@extend_schema_field({**OBJECT, "description": "A JSON Schema (2020-12) without remote references."})
class SchemaField(serializers.JSONField):
    """A JSON Schema; each problem is told by its place in the schema."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        problems = check_schema(data)
        if problems:
            raise serializers.ValidationError([f"{entry['path'] or '/'}: {entry['message']}" for entry in problems])
        return data


@extend_schema_field({**OBJECT, "type": ["object", "null"]})
class OptionalSchemaField(SchemaField):
    """The same, or null for none."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "allow_null": True, **kwargs})


@extend_schema_field(OBJECT)
class ObjectField(serializers.JSONField):
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Send a JSON object.", code="invalid")
        return data


class KnownFields:
    """A body may hold only fields that there are: a misspelt one would be lost without a word.

    Fields that are only read may be sent back, as who changes what a GET answered does; they change nothing. `echoed`
    names those that another path answers with.
    """

    echoed: tuple[str, ...] = ()
    fields: Mapping[str, serializers.Field]

    def to_internal_value(self, data: Any) -> Any:
        faults = self.unknown(data) if isinstance(data, Mapping) else {}
        try:
            value = super().to_internal_value(data)  # type: ignore[misc]
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**faults, **dict(error.detail)}) if faults else error  # type: ignore[arg-type]
        if faults:
            raise serializers.ValidationError(faults)
        return value

    def unknown(self, data: Mapping[str, Any]) -> dict[str, list[ErrorDetail]]:
        """What is wrong with the first twenty names that mean nothing here."""
        names = [name for name in data if name not in self.fields and name not in self.echoed]
        writable = [name for name, field in self.fields.items() if not field.read_only] if names else []
        return {name[:100]: [ErrorDetail(no_such("field", name, writable), "unknown_field")] for name in names[:20]}


def no_such(what: str, name: str, known: Iterable[str]) -> str:
    """“There is no such field; …” with the name that was meant, or all there are."""
    near = get_close_matches(name[:100], list(known), n=1)
    instead = f"did you mean “{near[0]}”?" if near else f"there are {', '.join(sorted(known)) or 'none'}."
    return f"There is no such {what} here; {instead}"


class StrictSerializer(KnownFields, serializers.Serializer):
    """A Serializer of bodies."""


class StrictModelSerializer(KnownFields, serializers.ModelSerializer):
    """A ModelSerializer whose fields are the ones above."""

    serializer_choice_field = Choice
    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.CharField: Text,
        models.SlugField: Text,
        models.TextField: Text,
        models.BooleanField: Flag,
        models.FloatField: Number,
        models.IntegerField: Whole,
        models.PositiveIntegerField: Whole,
        models.PositiveSmallIntegerField: Whole,
        models.PositiveBigIntegerField: Whole,
    }
