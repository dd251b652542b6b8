"""Serializer fields that take a value as what it is: "12" is no number, 1 is no text, "yes" is no truth."""

from typing import Any

from django.db import models
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

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


class StrictModelSerializer(serializers.ModelSerializer):
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
