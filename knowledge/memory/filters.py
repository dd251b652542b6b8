"""Filters of the list of memories, for the API and the page."""

from typing import Any

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from agents.http.filters import WORDS, FilterSet, Flag, Id
from devices.client.folding import spellings_of
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
        for word in value.replace("\0", " ").split()[:WORDS]:
            is_written = Q()
            for spelling in spellings_of(word):
                is_written |= Q(text__icontains=spelling) | Q(subject__icontains=spelling)
            rows = rows.filter(is_written)
        return rows
