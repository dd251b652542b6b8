"""Filters of the lists of runs and sessions."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from agents.http.filters import AmongFilter, FilterSet, Flag
from runs.models import Feedback, Run, Schedule, Session
from runs.models.figures import matching

# Ten years.
LONGEST_S = 10 * 365 * 86400


class RunFilter(FilterSet):
    agent = filters.CharFilter(method="of_agent", help_text="An agent's name.")
    status__in = AmongFilter(field_name="status", lookup_expr="in", choices=Run.Status.choices)
    chain = filters.CharFilter("chain_version__chain__name", help_text="A chain's name.")
    rating = filters.ChoiceFilter(
        field_name="feedback__rating", choices=Feedback.Rating.choices, help_text="Rated so by their person."
    )
    worker = filters.CharFilter("lease_owner", help_text="Currently held by this worker.")

    text = filters.CharFilter(
        method="filter_by_words", max_length=200,
        help_text="Words, each in a message of the run, its error, or the name of its session, agent or chain.",
    )  # fmt: skip
    tool_failed = Flag(method="with_failed_tool", help_text="true: a tool call of the run itself failed.")
    min_cost = filters.NumberFilter(
        method="total", min_value=0, max_value=1_000_000, help_text="US dollars, with the runs that it started."
    )
    max_cost = filters.NumberFilter(method="total", min_value=0, max_value=1_000_000, help_text="As min_cost.")
    min_tokens = filters.NumberFilter(
        method="total", min_value=0, max_value=10**12, help_text="Input and output, with the runs that it started."
    )
    max_tokens = filters.NumberFilter(method="total", min_value=0, max_value=10**12, help_text="As min_tokens.")
    min_seconds = filters.NumberFilter(
        method="took", min_value=0, max_value=LONGEST_S, help_text="From when it was accepted until it ended."
    )
    max_seconds = filters.NumberFilter(
        method="took", min_value=0, max_value=LONGEST_S, help_text="As min_seconds; only runs that have ended."
    )

    def of_agent(self, runs: QuerySet[Run], name: str, value: str) -> QuerySet[Run]:
        return matching.filter_by_agent_name(runs, value)

    def filter_by_words(self, runs: QuerySet[Run], name: str, value: str) -> QuerySet[Run]:
        return matching.filter_by_words(runs, value)

    def with_failed_tool(self, runs: QuerySet[Run], name: str, value: bool) -> QuerySet[Run]:
        return matching.with_failed_tool(runs, value)

    def total(self, runs: QuerySet[Run], name: str, value: Any) -> QuerySet[Run]:
        """`name` is the filter's, such as min_cost: it says what is added up and which bound this is."""
        end, what = name.split("_")
        comparison = "gte" if end == "min" else "lte"
        rows = matching.with_total(runs, what)
        return rows.filter(**{f"total_{what}__{comparison}": value})

    def took(self, runs: QuerySet[Run], name: str, value: Any) -> QuerySet[Run]:
        seconds = float(value)
        if name == "min_seconds":
            return matching.took(runs, at_least=seconds)
        return matching.took(runs, at_most=seconds)

    class Meta(FilterSet.Meta):
        model = Run
        fields = {
            "status": ["exact"],
            "trigger": ["exact"],
            "session": ["exact"],
            "parent": ["exact"],
            "root": ["exact"],
            "created_at": ["gte", "lt"],
        }


class SessionFilter(FilterSet):
    agent = filters.CharFilter("agent__name", help_text="An agent's name.")

    class Meta(FilterSet.Meta):
        model = Session
        fields = {
            "status": ["exact"],
            "parent": ["exact"],
            "pinned": ["exact"],
            "folder": ["exact"],
            "created_at": ["gte", "lt"],
            "updated_at": ["gte", "lt"],
        }


class ScheduleFilter(FilterSet):
    agent = filters.CharFilter("agent__name", help_text="An agent's name.")
    chain = filters.CharFilter("chain__name", help_text="A chain's name.")

    class Meta(FilterSet.Meta):
        model = Schedule
        fields = ["name", "enabled"]
