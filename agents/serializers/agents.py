"""Agents and tools as JSON."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents import prompts
from agents.definitions.hooks import read_hooks, write_hooks
from agents.http.grant_serializers import GrantSerializer, read_grants, replace_grants
from agents.http.strict import (
    Choice,
    Number,
    ObjectField,
    OptionalSchemaField,
    StrictSerializer,
    Text,
    Whole,
)
from agents.models import Agent, Hook, Provider, Tool, ToolGrant
from agents.models.hook import LIMIT
from agents.models.options import find_options
from agents.models.tool import MOST_GRANTS

from .owned import OWNED, DisplayedSerializer, OptionSerializer, find_by_name

WHEN = {"message": "message_in", "before_call": "before_tool", "after_call": "after_tool", "reply": "message_out"}


class ModelParamsSerializer(StrictSerializer):
    temperature = Number(min_value=0, max_value=2, required=False)
    top_p = Number(min_value=0, max_value=1, required=False)
    presence_penalty = Number(min_value=-2, max_value=2, required=False)
    frequency_penalty = Number(min_value=-2, max_value=2, required=False)
    max_tokens = Whole(min_value=1, max_value=1_000_000, required=False)

    def to_representation(self, value: dict[str, Any]) -> dict[str, Any]:
        return {name: value[name] for name in self.fields if value.get(name) is not None}


@extend_schema_field({"type": "object", "additionalProperties": {"type": "object"}})
class VariablesField(serializers.JSONField):
    """Name → JSON Schema of a value that a message gives; `default` for one that may be left out."""

    def to_internal_value(self, data: Any) -> Any:
        problems = prompts.check_variables(data)
        if problems:
            raise serializers.ValidationError([f"{problem['field']}: {problem['message']}" for problem in problems])
        return data


class HooksSerializer(serializers.ListSerializer):
    """The agent's own hooks, without those of its team and site. Fields with their default value are left out."""

    def to_representation(self, data: Any) -> list[dict[str, Any]]:
        when_by_place = {place: when for when, place in WHEN.items()}
        entries = []
        for hook in read_hooks(data.instance):
            when = when_by_place[hook.pop("place")]
            entries.append({"when": when, **hook})
        return entries

    def to_internal_value(self, data: Any) -> list[dict[str, Any]]:
        hooks = []
        for entry in super().to_internal_value(data):
            place = WHEN[entry.pop("when")]
            hooks.append({"place": place, **entry})
        return hooks


class HookEntrySerializer(OptionSerializer):
    """A stored function that is asked at a place of the agent's runs (docs/howto/hooks.md)."""

    when = Choice(choices=list(WHEN))
    function = Text(max_length=64)

    class Meta:
        model = Hook
        fields = ["when", "function", *find_options(Hook)]
        list_serializer_class = HooksSerializer


class AgentSerializer(DisplayedSerializer):
    provider = Text(max_length=64, source="provider.name", help_text="Name of a provider that you can use.")
    model_params = ModelParamsSerializer(required=False)
    variables = VariablesField(required=False)
    grants = GrantSerializer(many=True, required=False, max_length=MOST_GRANTS)  # type: ignore[call-arg]
    hooks = HookEntrySerializer(  # type: ignore[call-arg]  # of its list
        many=True, required=False, max_length=LIMIT,
        help_text="They take effect at once, without publishing. A request that leaves the field out keeps them.",
    )  # fmt: skip
    published_version = serializers.IntegerField(source="published.number", read_only=True, allow_null=True)

    class Meta:
        model = Agent
        fields = ["name", *find_options(Agent), "grants", "hooks", "published_version", *OWNED]

    def validate_provider(self, name: str) -> Provider:
        current = self.instance.provider if self.instance else None
        return find_by_name(Provider, self.context["request"].user, name, current)

    def validate_grants(self, grants: list[dict[str, Any]]) -> list[ToolGrant]:
        return read_grants(self.context["request"].user, grants, self.instance)

    def create(self, validated: dict[str, Any]) -> Agent:
        grants = validated.pop("grants", [])
        hooks = validated.pop("hooks", [])
        agent = super().create(with_provider(validated))
        replace_grants(agent, grants)
        write_hooks(agent, hooks, owner=agent.owner)
        return agent

    def update(self, agent: Agent, validated: dict[str, Any]) -> Agent:
        grants = validated.pop("grants", [] if self.replaces else None)
        hooks = validated.pop("hooks", None)
        agent = super().update(agent, with_provider(validated))
        if grants is not None:
            replace_grants(agent, grants)
        if hooks is not None:
            write_hooks(agent, hooks, owner=agent.owner)
        return agent


def with_provider(validated: dict[str, Any]) -> dict[str, Any]:
    """`source="provider.name"` would nest the row one level too deep."""
    if "provider" not in validated:
        return validated
    return {**validated, "provider": validated["provider"]["name"]}


class ToolSerializer(serializers.ModelSerializer):
    input_schema = ObjectField(read_only=True)
    output_schema = OptionalSchemaField(read_only=True)
    source = ObjectField(read_only=True)
    owner = serializers.SlugRelatedField(slug_field="username", read_only=True, allow_null=True)
    team = serializers.SlugRelatedField(slug_field="name", read_only=True, allow_null=True)

    class Meta:
        model = Tool
        fields = ["name", "kind", *find_options(Tool), "source", "definition_hash", "owner", "team"]
