"""What lists can be narrowed by: a value that cannot be meant is refused, an id that is not there finds nothing."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django_filters import rest_framework as filters


class FlagField(forms.Field):
    """true or false, and nothing that would silently mean neither."""

    def to_python(self, value: Any) -> bool | None:
        if value is None:
            return None
        flag = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
        if flag is None:
            raise ValidationError("Send true or false.", code="invalid")
        return flag


class IdField(forms.UUIDField):
    """Empty is no id: a script whose variable is not set would get everybody's rows."""

    def to_python(self, value: Any) -> Any:
        if value == "":
            raise ValidationError("Send an id.", code="invalid")
        return super().to_python(value)


class Flag(filters.BooleanFilter):
    field_class = FlagField

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{**more, "widget": forms.TextInput})


class Id(filters.UUIDFilter):
    """Of a related row, without asking whether it is there: a stranger must not learn that."""

    field_class = IdField


class FilterSet(filters.FilterSet):
    class Meta:
        filter_overrides = {models.BooleanField: {"filter_class": Flag}, models.ForeignKey: {"filter_class": Id}}


class Filters(filters.DjangoFilterBackend):
    filterset_base = FilterSet
