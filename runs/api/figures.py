"""Figures about one's own runs: how many are in progress, and what is unusual today."""

from typing import Any

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.response import Response

from agents.http.viewsets import APIView
from runs.models import Run
from runs.models.figures import anomalies, dashboard


class AnomalySerializer(serializers.Serializer):
    agent = serializers.CharField()
    measure = serializers.ChoiceField(
        choices=anomalies.MEASURES,
        help_text="`failures`: share of the runs; `cost`: US dollars a run; `latency`: seconds a run.",
    )
    value = serializers.FloatField(help_text="Today, since midnight UTC.")
    usual = serializers.FloatField(help_text="The average of the earlier days.")
    limit = serializers.FloatField(help_text="Above this it is unusual.")
    runs = serializers.IntegerField(help_text="Ended runs today.")
    message = serializers.CharField()


AnomalyTable = inline_serializer(
    "AnomalyTable",
    {"results": serializers.ListField(child=AnomalySerializer()), "next": serializers.URLField(allow_null=True)},
)


class AnomaliesView(APIView):
    """Agents whose runs of today fail more often, cost more or take longer than on the days before."""

    scope = "runs"

    @extend_schema(operation_id="anomalies", responses=AnomalyTable)
    def get(self, request: Any) -> Response:
        """Of your own runs. Empty while there are too few runs to compare."""
        runs = Run.objects.visible_to(request.user)
        return Response({"results": [anomaly.as_json() for anomaly in anomalies.today(runs)], "next": None})


class LiveRunsSerializer(serializers.Serializer):
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    waiting = serializers.IntegerField(help_text="For a person, a device, a child run or a time.")


class LiveRunsView(APIView):
    scope = "runs"

    @extend_schema(operation_id="runs_live", responses=LiveRunsSerializer)
    def get(self, request: Any) -> Response:
        """How many of your runs are in progress, by status."""
        return Response(dashboard.live_counts(Run.objects.visible_to(request.user)))
