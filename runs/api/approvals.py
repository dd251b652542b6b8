"""Questions that wait for a person, over HTTP."""

from typing import Any

from django.db.models import Case, QuerySet, When
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.response import Response

from agents.http import viewsets
from agents.models.key import DECIDE
from runs.calls import approvals
from runs.models import Approval
from runs.models.approval import may_decide
from runs.serializers.decisions import ApprovalSerializer, DecisionSerializer


class ApprovalViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet):
    """Questions waiting for a person; POST decides."""

    scope = "approvals"
    scopes = {"decide": DECIDE}
    serializer_class = ApprovalSerializer
    filterset_fields = {"status": ["exact"], "run": ["exact"], "tool": ["exact"]}
    search_fields = ("tool", "reason")
    orderings = ("created_at", "expires_at")
    queryset = Approval.objects.none()

    def get_queryset(self) -> QuerySet[Approval]:
        approvals = Approval.objects.visible_to(self.request.user).select_related("decided_by", "run")
        approvals = approvals.annotate(may_decide=Case(When(may_decide(self.request.user), then=True), default=False))
        wants_all = self.action != "list" or "status" in self.request.query_params
        return approvals if wants_all else approvals.open()

    @extend_schema(operation_id="approvals_decide", request=DecisionSerializer, responses={200: ApprovalSerializer})
    def decide(self, request: Any, pk: Any = None) -> Response:
        body = DecisionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        decided = approvals.decide_approval(
            self.get_object(),
            body.validated_data["decision"],
            by=request.user,
            arguments=body.validated_data.get("arguments"),
            note=body.validated_data.get("note", ""),
            source=request.META.get("REMOTE_ADDR", ""),
        )
        return Response(ApprovalSerializer(decided).data)
