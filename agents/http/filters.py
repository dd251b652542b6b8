"""List filters and search: an invalid value is refused, an unknown id matches nothing."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _
from django_filters import rest_framework as filters
from django_filters.fields import IsoDateTimeField
from rest_framework.filters import BaseFilterBackend

from agents.exceptions import Invalid
from agents.fields import check_moment
from devices.client.folding import list_spellings

from .strict import NOT_ONE_OF, join_choices, shorten_json

WRONG_FILTER = _("A filter of this list is not valid.")
SEE_DETAILS = _("See details.")
EMPTY = _("Send a value, or leave the parameter out.")
NO_TIME = _("Send a time such as 2026-06-01T08:00:00Z.")
WORDY = frozenset(["search", "text"])
# Words of a search; each is a condition of the query.
WORDS = 10


class FlagField(forms.Field):
    """true or false; any other value is refused."""

    def to_python(self, value: Any) -> bool | None:
        if value is None:
            return None
        text = str(value).lower()
        if text in ("true", "1"):
            return True
        if text in ("false", "0"):
            return False
        raise ValidationError("Send true or false.", code="invalid")


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


class MomentField(IsoDateTimeField):
    default_validators = [check_moment]


class Moment(filters.IsoDateTimeFilter):
    """A time that the database can compare."""

    field_class = MomentField


class FilterSet(filters.FilterSet):
    class Meta:
        filter_overrides = {
            models.BooleanField: {"filter_class": Flag},
            models.ForeignKey: {"filter_class": Id},
            models.DateTimeField: {"filter_class": Moment},
        }


class AmongFilter(filters.BaseInFilter, filters.ChoiceFilter):
    """Several values of a closed list, with commas between them."""


class Filters(filters.DjangoFilterBackend):
    """An empty value is refused like any other wrong one: a script with an unset variable would
    otherwise get every row. Words to search for may be empty.
    """

    filterset_base = FilterSet

    def filter_queryset(self, request: Any, queryset: Any, view: Any) -> Any:
        """Raises Invalid with one detail for each wrong parameter."""
        filterset = self.get_filterset(request, queryset, view)
        if filterset is None:
            return queryset
        details: list[dict[str, str]] = []
        empty: set[str] = set()
        for name in filterset.filters:
            if name not in WORDY and request.query_params.get(name) == "":
                empty.add(name)
                details.append({"field": name, "code": "blank", "message": str(EMPTY)})
        for name, errors in filterset.errors.get_json_data().items():
            if name not in empty:
                details += [choice_fault(name, error, filterset) for error in errors]
        if details:
            raise Invalid(str(WRONG_FILTER), code="invalid_filter", hint=str(SEE_DETAILS), details=details)
        return filterset.qs


def choice_fault(name: str, error: dict[str, str], filterset: Any) -> dict[str, str]:
    """A detail of the answer; that of a closed list names its values."""
    message = error["message"]
    field = filterset.form.fields[name]
    if error["code"] == "invalid_choice":
        sent = shorten_json(filterset.data[name])
        choices = join_choices(value for value, _ in field.choices)
        message = NOT_ONE_OF.format(input=sent, choices=choices)
    elif isinstance(field, forms.DateTimeField | IsoDateTimeField) and error["code"] == "invalid":
        message = str(NO_TIME)
    return {"field": name, "code": error["code"], "message": message}


def filter_by_words(rows: Any, text: str, *columns: str) -> Any:
    """The rows that have each word of a text in one of these columns, in any case and any spelling of its letters."""
    for word in text.replace("\0", " ").split()[:WORDS]:
        rows = rows.filter(match_word(word, *columns))
    return rows


def match_word(word: str, *columns: str) -> models.Q:
    """Each spelling is a condition, because SQLite knows the case of ASCII letters alone, and no database composes."""
    is_written = models.Q()
    for spelling in list_spellings(word):
        for column in columns:
            is_written |= models.Q(**{f"{column}__icontains": spelling})
    return is_written


class Search(BaseFilterBackend):
    """`?search=`: each word must be in one of the view's `search_fields`."""

    def filter_queryset(self, request: Any, queryset: Any, view: Any) -> Any:
        columns = self.get_search_fields(view, request)
        if not columns:
            return queryset
        return filter_by_words(queryset, request.query_params.get("search", ""), *columns)

    def get_search_fields(self, view: Any, request: Any) -> Any:
        if view.action != "list":
            return None
        return getattr(view, "search_fields", None)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        names = self.get_search_fields(view, None)
        if not names:
            return []
        description = f"Words, each in one of {', '.join(names)}."
        return [{"name": "search", "in": "query", "schema": {"type": "string"}, "description": description}]


def find_orderings(view: Any) -> tuple[str, ...]:
    """The columns that a client may order this list by."""
    if getattr(view, "action", "") != "list":
        return ()
    return getattr(view, "orderings", ())
