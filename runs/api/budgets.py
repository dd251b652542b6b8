"""Budgets and usage over HTTP."""

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.response import Response

from agents.exceptions import Forbidden, Invalid
from agents.http import viewsets
from agents.http.resources import Tagged
from agents.http.strict import RowId, StrictModelSerializer, Text
from agents.http.viewsets import APIView
from agents.models import Agent, AuditEvent, Membership, Team
from plumbing import clock
from runs.models import Budget, Run
from runs.models.figures import usage


class BudgetSerializer(StrictModelSerializer):
    """A limit for one user, one agent or one team. Without agent and team it limits the caller's
    own runs.
    """

    id = RowId(read_only=True)
    agent = Text(source="agent.name", required=False, allow_null=True)
    team = Text(source="team.name", required=False, allow_null=True)
    user = serializers.CharField(source="user.username", read_only=True, allow_null=True)
    embed = serializers.UUIDField(
        source="embed_id", read_only=True, allow_null=True, help_text="Whose visitors it limits; set on the embed."
    )

    class Meta:
        model = Budget
        fields = [
            "id",
            "agent",
            "team",
            "user",
            "embed",
            "period",
            "max_tokens",
            "max_cost",
            "max_runs",
            "enabled",
            "created_at",
        ]
        read_only_fields = ["id", "created_at"]

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        if not self.has_limit(fields):
            raise serializers.ValidationError("Set at least one of max_tokens, max_cost, max_runs.")
        person = self.context["request"].user
        agent = fields.pop("agent", None)
        if agent and agent.get("name"):
            fields["agent"] = self.find_agent(agent["name"])
        team = fields.pop("team", None)
        if team and team.get("name"):
            fields["team"] = administered_team(person, team["name"])
        return fields

    def has_limit(self, fields: dict[str, Any]) -> bool:
        """Whether the row will limit anything. A PATCH leaves the limits that it does not name."""
        for name in ("max_tokens", "max_cost", "max_runs"):
            current = getattr(self.instance, name, None)
            if fields.get(name, current) is not None:
                return True
        return False

    def find_agent(self, name: str) -> Agent:
        # Keep an agent that the person could see when the budget was set, even if it is no longer shared.
        current = self.instance.agent if self.instance else None
        if current is not None and current.name == name:
            return current
        return Agent.objects.named(self.context["request"].user, name)


def administered_team(person: Any, name: str) -> Team:
    """Only administrators of a team set its limits."""
    team = Team.objects.filter(name=name, memberships__user=person).first()
    if team is None:
        raise Invalid(f"You are not in a team called “{name}”.")
    role = Membership.Role.ADMINISTRATOR
    if not Membership.objects.filter(team=team, user=person, role=role).exists():
        raise Forbidden(
            "Only an administrator of the team can set its budget.",
            hint="Ask one of them, or set a budget for yourself: leave out “team”.",
        )
    return team


class BudgetViewSet(Tagged, viewsets.ModelViewSet):
    """Limits on tokens, cost and runs, checked before each model call."""

    scope = "budgets"
    serializer_class = BudgetSerializer
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]
    queryset = Budget.objects.none()
    orderings = ("created_at",)

    def get_queryset(self) -> QuerySet[Budget]:
        budgets = Budget.objects.visible_to(self.request.user)
        return budgets.select_related("agent", "team", "user").distinct()

    def perform_create(self, serializer: Any) -> None:
        user = self.whom(serializer)
        budget = serializer.save(owner=self.request.user, user=user)
        AuditEvent.record("budget.create", budget, actor=self.request.user)

    def perform_update(self, serializer: Any) -> None:
        self.require_owner(serializer.instance)
        budget = serializer.save(user=self.whom(serializer))
        AuditEvent.record("budget.change", budget, actor=self.request.user)

    def whom(self, serializer: Any) -> Any:
        """The runs that it limits: the caller's own, except for a team, or an agent that the caller
        may change.
        """
        fields = serializer.validated_data
        budget = serializer.instance
        team = fields.get("team", getattr(budget, "team", None))
        if team is not None:
            return None
        agent = fields.get("agent", getattr(budget, "agent", None))
        if agent is not None and agent.may_edit(self.request.user):
            return None
        return self.request.user

    def perform_destroy(self, budget: Budget) -> None:
        self.require_owner(budget)
        AuditEvent.record("budget.delete", budget, actor=self.request.user)
        budget.delete()

    def require_owner(self, budget: Budget) -> None:
        """A team's budget is its administrators' to change, any other its owner's."""
        editable = Budget.objects.editable_by(self.request.user)
        if not editable.filter(pk=budget.pk).exists():
            raise Forbidden(
                "Only the person who set this budget, or a team's administrator, may change it.",
                hint="Ask one of them, or set a budget for yourself: leave out “team”.",
            )


GROUP_FIELDS = {
    name: serializers.CharField(required=False, allow_null=True, help_text=f"With `by={name}`.")
    for name in sorted(usage.GROUPS)
}
UsageRow = inline_serializer(
    "UsageRow",
    {
        **GROUP_FIELDS,
        "runs": serializers.IntegerField(),
        "failed": serializers.IntegerField(),
        "input_tokens": serializers.IntegerField(),
        "output_tokens": serializers.IntegerField(),
        "cost": serializers.CharField(),
        "turns": serializers.FloatField(),
    },
)


UsageTable = inline_serializer(
    "UsageTable",
    {"results": serializers.ListField(child=UsageRow), "next": serializers.URLField(allow_null=True)},
)
DAYS = {"type": "integer", "minimum": 1, "maximum": 366}


class UsageView(APIView):
    """Tokens and cost of your runs."""

    scope = "budgets"
    parameters = {"get": ("by", "days")}

    @extend_schema(
        operation_id="usage",
        parameters=[
            OpenApiParameter("by", str, enum=sorted(usage.GROUPS), default="agent"),
            OpenApiParameter("days", DAYS, default=30, description="Number of days."),
        ],
        responses=UsageTable,
    )
    def get(self, request: Any) -> Response:
        by = request.query_params.get("by", "agent")
        days = request.query_params.get("days", "30")
        is_number = days.isascii() and days.isdigit() and len(days) < 4
        if by not in usage.GROUPS or not is_number or not 1 <= int(days) <= 366:
            raise Invalid("Send by=agent, day, status or user and days=1 to 366.")
        now = clock.near()
        runs = Run.objects.visible_to(request.user)
        rows = usage.build_usage_table(runs, by=by, since=now - timedelta(days=int(days)), until=now)
        return Response({"results": rows, "next": None})
