"""Conversations over HTTP."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.response import Response

from agents.http import viewsets
from runs.models import Session
from runs.queue import endings
from runs.serializers.sessions import MessageSerializer, SessionSerializer

from .filters import SessionFilter
from .messages import own_device


class SessionViewSet(
    mixins.RetrieveModelMixin,
    mixins.ListModelMixin,
    mixins.UpdateModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet,
):
    """Conversations: list, read, rename, close, delete."""

    scope = "sessions"
    serializer_class = SessionSerializer
    http_method_names = ["get", "patch", "delete", "head", "options"]
    filterset_class = SessionFilter
    search_fields = ("title", "agent__name")
    orderings = ("created_at", "updated_at")
    queryset = Session.objects.none()

    def get_queryset(self) -> QuerySet[Session]:
        sessions = Session.objects.visible_to(self.request.user)
        return sessions.select_related("agent")

    def perform_destroy(self, session: Session) -> None:
        """Delete the conversation and what its runs held; that they ran, and their costs, are kept as history. A run
        in progress is stopped first.
        """
        endings.delete_session(session, by=self.request.user, reason="its session was deleted")

    def perform_update(self, serializer: Any) -> None:
        # Only a device of one's own can be set.
        own_device(self.request.user, serializer.validated_data.get("device"))
        serializer.save()

    @extend_schema(responses=MessageSerializer(many=True))
    def messages(self, request: Any, pk: Any = None) -> Response:
        session = self.get_object()
        page = self.paginate_queryset(session.messages.order_by("seq"))
        return self.get_paginated_response(MessageSerializer(page, many=True).data)
