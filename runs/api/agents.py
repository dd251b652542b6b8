"""What only the runs know about an agent or a chain: what uses it."""

from typing import Any

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.response import Response

from agents.http.viewsets import APIView, ByName
from agents.models import Agent, Chain
from runs.models.figures import agents


class AgentUserSerializer(serializers.Serializer):
    kind = serializers.CharField(help_text="agent, chain, step, schedule or trigger.")
    name = serializers.CharField(help_text="Of a step: the chain and the key of the step.")


AgentUsers = inline_serializer(
    "AgentUsers",
    {"results": serializers.ListField(child=AgentUserSerializer()), "next": serializers.URLField(allow_null=True)},
)


class UsedByView(ByName, APIView):
    scope = "agents"

    @extend_schema(operation_id="agents_used_by", responses=AgentUsers)
    def get(self, request: Any, name: str) -> Response:
        """Agents and chains with a grant for the agent, steps that name it, schedules and triggers that
        start it: of the rows that you can see.
        """
        agent = self.named(Agent.objects.all())
        return Response({"results": agents.find_target_uses(agent, request.user), "next": None})


class ChainUsedByView(ByName, APIView):
    scope = "chains"

    @extend_schema(operation_id="chains_used_by", responses=AgentUsers)
    def get(self, request: Any, name: str) -> Response:
        """Agents and chains with a grant for the chain, steps that name it, schedules and triggers that
        start it: of the rows that you can see.
        """
        chain = self.named(Chain.objects.all())
        return Response({"results": agents.find_target_uses(chain, request.user), "next": None})
