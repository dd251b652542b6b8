"""List filters and search: an invalid value is refused, an unknown id matches nothing."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django_filters import rest_framework as filters
from rest_framework.filters import SearchFilter

WORDS = 10  # of a search; each is a condition of the query


class FlagField(forms.Field):
    """true or false; any other value is refused."""

    def to_python(self, value: Any) -> bool | None:
        if value is None:
            return None
        flag = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
        if flag is None:
            raise ValidationError("Send true or false.", code="invalid")
        return flag


class IdField(forms.UUIDField):
    """An empty id is refused: a script with an unset variable would otherwise get every row."""

    def to_python(self, value: Any) -> Any:
        if value == "":
            raise ValidationError("The id must not be empty.", code="invalid")
        return super().to_python(value)


class Flag(filters.BooleanFilter):
    field_class = FlagField

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{**more, "widget": forms.TextInput})


class Id(filters.UUIDFilter):
    """The id of a related row, without checking that it exists, which would reveal other users'
    rows.
    """

    field_class = IdField


class FilterSet(filters.FilterSet):
    class Meta:
        filter_overrides = {models.BooleanField: {"filter_class": Flag}, models.ForeignKey: {"filter_class": Id}}


class Filters(filters.DjangoFilterBackend):
    filterset_base = FilterSet


class Search(SearchFilter):
    """`?search=`: each word must be in one of the view's `search_fields`, in any case of its letters."""

    def get_search_fields(self, view: Any, request: Any) -> Any:
        return getattr(view, "search_fields", None) if view.action == "list" else None

    def get_search_terms(self, request: Any) -> list[str]:
        return request.query_params.get("search", "").replace("\0", " ").split()[:WORDS]

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        if not (names := self.get_search_fields(view, None)):
            return []
        description = f"Words, each in one of {', '.join(names)}."
        return [{"name": "search", "in": "query", "schema": {"type": "string"}, "description": description}]


def orderings_of(view: Any) -> tuple[str, ...]:
    """The columns that a client may order this list by."""
    return getattr(view, "orderings", ()) if getattr(view, "action", "") == "list" else ()
