"""The evaluation set of a collection over HTTP: its questions, and how well the search answers them."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.http.versioned import WITHOUT_LISTS
from agents.http.viewsets import read_body
from knowledge.models import Evaluation, EvaluationQuestion

from . import evaluation
from .serializers import EvaluationQuestionSerializer, EvaluationSerializer, NewEvaluationQuestionSerializer
from .viewsets import InCollection

HOURS = OpenApiExample(
    "A question", request_only=True,
    value={"question": "How long may goods be returned?", "document": "returns.md", "place": "Returns"},
)  # fmt: skip


class QuestionViewSet(mixins.ListModelMixin, InCollection):
    """The evaluation set of a collection: questions, each with the document that answers it."""

    queryset = EvaluationQuestion.objects.none()
    serializer_class = EvaluationQuestionSerializer

    def get_queryset(self) -> Any:
        return EvaluationQuestion.objects.filter(collection=self.collection())

    @extend_schema(
        request=NewEvaluationQuestionSerializer, responses={201: EvaluationQuestionSerializer}, examples=[HOURS]
    )
    def create(self, request: Any, name: str) -> Response:
        """Add a question, or change the answer of the one with these words."""
        collection = self.collection()
        body = read_body(NewEvaluationQuestionSerializer, request)
        row = evaluation.add_question(collection, **body)
        self.audit("added", row, collection=str(collection))
        return Response(EvaluationQuestionSerializer(row).data, status=201)

    def destroy(self, request: Any, name: str, pk: Any) -> Response:
        """Remove a question. Evaluations keep what they measured."""
        row = self.get_object()
        self.audit("removed", row, collection=name)
        row.delete()
        return Response(status=204)


class EvaluationViewSet(mixins.ListModelMixin, InCollection):
    """How well the search of a collection answered its questions, version by version, newest first."""

    queryset = Evaluation.objects.none()
    serializer_class = EvaluationSerializer
    bodiless = ("evaluate",)

    def get_queryset(self) -> Any:
        return Evaluation.objects.filter(collection=self.collection())

    @extend_schema(request=None, responses={200: EvaluationSerializer}, operation_id="collections_evaluate")
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def evaluate(self, request: Any, name: str) -> Response:
        """Search all questions in the present version. `warning` says what became worse since the last time."""
        row = evaluation.evaluate(self.collection())
        self.audit("made", row, collection=name, version=row.version)
        return Response(EvaluationSerializer(row).data)
