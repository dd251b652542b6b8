"""What the person of a run thinks of its answer, over HTTP."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents.exceptions import NotFound
from agents.http.strict import Choice, StrictSerializer, Text
from agents.http.throttles import client_address
from agents.http.viewsets import APIView, read_body
from agents.models import AuditEvent
from runs.models import Feedback, Run


class FeedbackSerializer(StrictSerializer):
    rating = Choice(choices=Feedback.Rating.choices)
    note = Text(required=False, allow_blank=True, max_length=1000, default="")
    updated_at = serializers.DateTimeField(read_only=True)


class FeedbackView(APIView):
    """A thumb up or down on a run, with a note. Only the run's own person reads and writes it."""

    scope = "runs"

    @extend_schema(operation_id="runs_feedback_retrieve", responses=FeedbackSerializer)
    def get(self, request: Any, pk: Any) -> Response:
        """The feedback on a run; 404 if there is none."""
        run = self.own_run(pk)
        return Response(FeedbackSerializer(self.found(run)).data)

    @extend_schema(operation_id="runs_feedback_update", request=FeedbackSerializer, responses={200: FeedbackSerializer})
    def put(self, request: Any, pk: Any) -> Response:
        """Rate a run, or replace its rating."""
        run = self.own_run(pk)
        body = read_body(FeedbackSerializer, request)
        feedback, _ = Feedback.objects.update_or_create(run=run, defaults=body)
        self.audit("rated", run, rating=feedback.rating)
        return Response(FeedbackSerializer(feedback).data)

    @extend_schema(operation_id="runs_feedback_destroy", responses={204: None})
    def delete(self, request: Any, pk: Any) -> Response:
        """Take the rating back."""
        run = self.own_run(pk)
        self.found(run).delete()
        self.audit("unrated", run)
        return Response(status=204)

    def own_run(self, pk: Any) -> Run:
        run = Run.objects.visible_to(self.request.user).filter(pk=pk).first()
        if run is None:
            raise NotFound("You have no such run.")
        return run

    def found(self, run: Run) -> Feedback:
        feedback = Feedback.objects.filter(run=run).first()
        if feedback is None:
            raise NotFound("This run has no feedback.", hint="PUT a rating.")
        return feedback

    def audit(self, verb: str, run: Run, **details: Any) -> None:
        source = client_address(self.request)
        AuditEvent.record(f"run.{verb}", run, actor=self.request.user, source=source, **details)
