"""Filters of the lists of records, for the API and the page."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from agents.http.filters import FilterSet, Flag, Id
from devices.models import Record

from .shapes import COLLECTIONS


class RecordFilter(FilterSet):
    kind = filters.ChoiceFilter(choices=[(kind, kind) for kind in COLLECTIONS.values()])
    review = filters.ChoiceFilter(choices=Record.Review.choices)
    waiting = Flag(method="filter_waiting", help_text="Whether it waits for a decision.")
    state = filters.CharFilter("data__state", help_text="Of a task or a timeline.")
    status = filters.CharFilter("data__status", help_text="Of a project.")
    project = filters.CharFilter("data__project_id", help_text="The id of a project.")
    source = filters.CharFilter("data__source", help_text="Where it comes from, such as the thread of a mail.")
    assignee = filters.CharFilter(method="filter_assignee", help_text="One of its assignees, in any case.")
    search = filters.CharFilter(method="filter_search", help_text="Words that its texts contain.")
    run = Id(method="filter_run", help_text="Created or changed by this run.")

    class Meta(FilterSet.Meta):
        model = Record
        fields: list[str] = []

    def filter_waiting(self, rows: Any, name: str, value: bool) -> QuerySet:
        waiting = Record.objects.waiting().values("pk")
        if value:
            return rows.filter(pk__in=waiting)
        return rows.exclude(pk__in=waiting)

    def filter_assignee(self, rows: Any, name: str, value: str) -> QuerySet:
        return rows.assigned_to(value)

    def filter_search(self, rows: Any, name: str, value: str) -> QuerySet:
        return rows.containing(value)

    def filter_run(self, rows: Any, name: str, value: Any) -> QuerySet:
        return rows.filter(changes__run_id=value).distinct()
