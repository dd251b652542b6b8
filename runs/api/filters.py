"""Filters of the lists of runs and sessions."""

from django_filters import rest_framework as filters

from agents.http.filters import FilterSet
from runs.models import Feedback, Run, Schedule, Session


class RunFilter(FilterSet):
    agent = filters.CharFilter("agent__name", help_text="An agent's name.")
    chain = filters.CharFilter("chain_version__chain__name", help_text="A chain's name.")
    rating = filters.ChoiceFilter(
        field_name="feedback__rating", choices=Feedback.Rating.choices, help_text="Rated so by their person."
    )
    worker = filters.CharFilter("lease_owner", help_text="Currently held by this worker.")

    class Meta(FilterSet.Meta):
        model = Run
        fields = {
            "status": ["exact", "in"],
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
            "created_at": ["gte", "lt"],
            "updated_at": ["gte", "lt"],
        }


class ScheduleFilter(FilterSet):
    agent = filters.CharFilter("agent__name", help_text="An agent's name.")
    chain = filters.CharFilter("chain__name", help_text="A chain's name.")

    class Meta(FilterSet.Meta):
        model = Schedule
        fields = ["name", "enabled"]
