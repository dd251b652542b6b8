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
        user = self.request.user
        # The people who see an approval are not always those who may decide about it.
        is_decider = Case(When(may_decide(user), then=True), default=False)
        approvals = (
            Approval.objects.visible_to(user).select_related("decided_by", "run").annotate(may_decide=is_decider)
        )
        if self.action == "list" and "status" not in self.request.query_params:
            return approvals.open()
        return approvals

    @extend_schema(operation_id="approvals_decide", request=DecisionSerializer, responses={200: ApprovalSerializer})
    def decide(self, request: Any, pk: Any = None) -> Response:
        serializer = DecisionSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        body = serializer.validated_data
        decided = approvals.decide_approval(
            self.get_object(),
            body["decision"],
            by=request.user,
            arguments=body.get("arguments"),
            note=body.get("note", ""),
            source=request.META.get("REMOTE_ADDR", ""),
        )
        return Response(ApprovalSerializer(decided).data)
