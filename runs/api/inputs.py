"""Input requests over HTTP: what runs wait for, and the answers."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.response import Response

from agents.http import viewsets
from agents.http.viewsets import read_body
from runs.calls import inputs
from runs.models import InputRequest
from runs.serializers.decisions import InputAnswerSerializer, InputRequestSerializer


class InputRequestViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet):
    """What runs wait for: answers to questions, and results of tools that the caller executes.

    The list has the open ones unless `status` is given.
    """

    scope = "messages"
    serializer_class = InputRequestSerializer
    filterset_fields = {"status": ["exact"], "run": ["exact"], "kind": ["exact"]}
    queryset = InputRequest.objects.none()

    def get_queryset(self) -> QuerySet[InputRequest]:
        rows = InputRequest.objects.visible_to(self.request.user).select_related("answered_by", "run")
        if self.action == "list" and "status" not in self.request.query_params:
            return rows.open()
        return rows

    @extend_schema(request=InputAnswerSerializer, responses={200: InputRequestSerializer})
    def answer(self, request: Any, pk: Any = None) -> Response:
        """Answer once; the run continues. 409 if it was answered, declined or has expired."""
        body = read_body(InputAnswerSerializer, request)
        input_request = self.get_object()
        if body.get("decline"):
            closed = inputs.decline(input_request, by=request.user)
        else:
            closed = inputs.answer_input_request(
                input_request, by=request.user, value=body.get("value"), error=body.get("error")
            )
        return Response(InputRequestSerializer(closed).data)
