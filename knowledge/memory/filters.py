"""Filters of the list of memories, for the API and the page."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from agents.http.filters import FilterSet, Flag, Id, filter_by_words
from knowledge.models import Memory


class MemoryFilter(FilterSet):
    scope = filters.ChoiceFilter(choices=Memory.Scope.choices)
    kind = filters.ChoiceFilter(choices=Memory.Kind.choices)
    status = filters.ChoiceFilter(choices=Memory.Status.choices)
    agent = filters.CharFilter("agent__name", help_text="The name of an agent.")
    team = filters.CharFilter("team__name", help_text="The name of a team.")
    untrusted = Flag(help_text="Whether it comes from text written by others.")
    run = Id("run_id", help_text="Written by this run.")
    search = filters.CharFilter(method="filter_search", help_text="Words, each in the text or the subject.")

    class Meta(FilterSet.Meta):
        model = Memory
        fields: list[str] = []

    def filter_search(self, rows: Any, name: str, value: str) -> QuerySet:
        return filter_by_words(rows, value, "text", "subject")
