"""Embeds over HTTP: which agents visitors may talk to, and within which limits."""

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.exceptions import Invalid
from agents.http import viewsets
from agents.http.resources import Tagged
from agents.http.strict import StrictModelSerializer, Text, Words
from agents.http.viewsets import Audited, lock_row
from agents.models import Agent
from agents.serializers.owned import find_by_name
from runs.models import Budget, Embed
from runs.models.embed import ORIGINS, SUGGESTION, SUGGESTIONS

# The fields that are budgets of their own, and their periods.
COSTS = {"daily_cost": Budget.Period.DAY, "monthly_cost": Budget.Period.MONTH}
# Of a new embed, unless its owner says otherwise.
DAILY_COST = Decimal(1)
ON_A_SHOP = OpenApiExample(
    "On the pages of a shop",
    request_only=True,
    value={"agent": "clerk", "title": "Ask the shop", "origins": ["https://shop.example.org"], "daily_cost": "2.00",
           "enabled": True},
)  # fmt: skip


def money(help_text: str) -> serializers.DecimalField:
    return serializers.DecimalField(
        max_digits=12, decimal_places=4, min_value=Decimal(0), allow_null=True, required=False, help_text=help_text
    )


class EmbedSerializer(StrictModelSerializer):
    """`key` is public: it is part of the pages that show the agent."""

    agent = Text(source="agent.name", max_length=64, help_text="Cannot be changed later.")
    origins = Words(max_length=ORIGINS, required=False)
    suggestions = Words(max_length=SUGGESTIONS, each=SUGGESTION, required=False)
    tools = Words(each=64, required=False)
    daily_cost = money(f"US dollars that visitors may cost a day; null: no limit; {DAILY_COST} in a new one.")
    monthly_cost = money("The same for a calendar month; null in a new one.")
    page_url = serializers.SerializerMethodField()

    class Meta:
        model = Embed
        fields = [
            "id", "agent", "key", "enabled", "origins", "title", "greeting", "suggestions", "colour", "tools",
            "per_visitor", "per_minute", "max_characters", "daily_cost", "monthly_cost", "page_url", "created_at",
            "updated_at",
        ]  # fmt: skip
        read_only_fields = ["id", "key", "created_at", "updated_at"]

    def get_page_url(self, embed: Embed) -> str:
        return page_url(embed)

    def validate_agent(self, name: str) -> str:
        if self.instance is not None and name != self.instance.agent.name:
            raise serializers.ValidationError("The agent cannot be changed: create another embed.", code="fixed")
        return name

    def to_representation(self, embed: Embed) -> dict[str, Any]:
        for name, cost in read_cost_limits(embed).items():
            setattr(embed, name, cost)
        return super().to_representation(embed)


@extend_schema(examples=[ON_A_SHOP])
class EmbedViewSet(Tagged, Audited, viewsets.ModelViewSet):
    """Agents of yours that strangers may talk to, in a widget on other sites or on a page of their own."""

    scope = "agents"
    serializer_class = EmbedSerializer
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]
    queryset = Embed.objects.none()
    filterset_fields = {"enabled": ["exact"]}
    orderings = ("created_at", "updated_at")
    bodiless = ("rotate",)

    def get_queryset(self) -> QuerySet[Embed]:
        embeds = Embed.objects.visible_to(self.request.user)
        return embeds.select_related("agent").prefetch_related("budgets")

    def perform_create(self, serializer: Any) -> None:
        fields = serializer.validated_data
        agent = find_by_name(Agent, self.request.user, fields.pop("agent")["name"])
        agent.require_edit(self.request.user)
        # Strangers cost money: a new embed has a limit unless its owner says otherwise.
        costs = {"daily_cost": DAILY_COST, "monthly_cost": None}
        costs.update(take_costs(fields))
        embed = save_embed(Embed(owner=self.request.user, agent=agent), fields, costs)
        serializer.instance = embed
        self.audit("created", embed, agent=agent.name, enabled=embed.enabled)

    def perform_update(self, serializer: Any) -> None:
        fields = serializer.validated_data
        fields.pop("agent", None)
        changed = sorted(fields)
        costs = take_costs(fields)
        embed = save_embed(serializer.instance, fields, costs)
        serializer.instance = embed
        self.audit("changed", embed, fields=changed, enabled=embed.enabled)

    def perform_destroy(self, embed: Embed) -> None:
        self.audit("deleted", embed)
        embed.delete()

    @extend_schema(request=None, responses=EmbedSerializer)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def rotate(self, request: Any, pk: Any = None) -> Response:
        """A new key. The old one ends, with the address of the page and every conversation of visitors."""
        embed = self.get_object()
        embed.rotate()
        self.audit("rotated", embed)
        return Response(self.get_serializer(embed).data)


def take_costs(fields: dict[str, Any]) -> dict[str, Decimal | None]:
    """The costs among the fields, which are removed from these: they are budgets, and no columns of the embed."""
    costs: dict[str, Decimal | None] = {}
    for name in COSTS:
        if name in fields:
            costs[name] = fields.pop(name)
    return costs


@transaction.atomic
def save_embed(embed: Embed, fields: dict[str, Any], costs: dict[str, Decimal | None]) -> Embed:
    """Change the row and its budgets. Raises Invalid."""
    # A new row cannot be changed by anybody else yet.
    if not embed._state.adding:
        lock_row(embed)
    for name, value in fields.items():
        setattr(embed, name, value)
    try:
        embed.full_clean(exclude=["owner"])
    except ValidationError as error:
        raise Invalid.of(error)
    embed.save()
    for name, cost in costs.items():
        Budget.limit_embed(embed, COSTS[name], cost)
    # Read again, with the new budgets.
    return Embed.objects.select_related("agent").prefetch_related("budgets").get(pk=embed.pk)


def read_cost_limits(embed: Embed) -> dict[str, Decimal | None]:
    """The limits of an embed by the names of their fields. A limit that is switched off counts as none."""
    max_costs = {budget.period: budget.max_cost for budget in embed.budgets.all() if budget.enabled}
    return {name: max_costs.get(period) for name, period in COSTS.items()}


def page_url(embed: Embed) -> str:
    site = settings.PUBLIC_URL.rstrip("/")
    return f"{site}/chat/{embed.key}/"
