"""Filters of the list of documents, for the API and the page."""

from django_filters import rest_framework as filters

from agents.http.filters import FilterSet, Flag
from knowledge.models import Document


class DocumentFilter(FilterSet):
    status = filters.ChoiceFilter(choices=Document.Status.choices)
    source = filters.ChoiceFilter(choices=Document.Source.choices)
    name = filters.CharFilter()
    untrusted = Flag(help_text="Whether it may contain text written by others.")

    class Meta(FilterSet.Meta):
        model = Document
        fields: list[str] = []
