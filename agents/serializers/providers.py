"""Model providers, their prices and tests as JSON. Keys are write-only."""

from typing import Any

from rest_framework import serializers

from agents.http.strict import (
    Flag,
    Number,
    StrictSerializer,
    Text,
)
from agents.models import Provider
from agents.models.options import find_options

from .owned import OWNED, OwnedSerializer


class PriceSerializer(StrictSerializer):
    input = Number(min_value=0, default=0)
    output = Number(min_value=0, default=0)


class PricesField(serializers.DictField):
    child = PriceSerializer()

    def to_representation(self, value: Any) -> Any:
        return value


class ProviderSerializer(OwnedSerializer):
    api_key = Text(write_only=True, required=False, allow_blank=True, max_length=2000, help_text="Never shown again.")
    has_key = serializers.SerializerMethodField()
    prices = PricesField(required=False, help_text="US dollars per million tokens, by model; * is any other.")

    state = serializers.ChoiceField(
        choices=["off", "ready", "untested", "works", "failing"],
        read_only=True,
        help_text="What the last test found; a change of the provider makes it untested.",
    )

    class Meta:
        model = Provider
        fields = [
            "name", "kind", "api_key", "has_key", *find_options(Provider), "state", "tested_at", "test_code", *OWNED,
        ]  # fmt: skip
        read_only_fields = ["tested_at", "test_code"]

    def get_has_key(self, provider: Provider) -> bool:
        return bool(provider.api_key)

    def update(self, provider: Provider, validated: dict[str, Any]) -> Provider:
        """A stored key is not kept when the address changes."""
        address = (validated.get("kind", provider.kind), validated.get("base_url", provider.base_url))
        if address != (provider.kind, provider.base_url):
            validated = {"api_key": "", **validated}
        return super().update(provider, validated)


class KnownModelSerializer(serializers.Serializer):
    input = serializers.FloatField(help_text="US dollars per million tokens, unless the provider sets a price.")
    output = serializers.FloatField()
    window = serializers.IntegerField(allow_null=True, help_text="Tokens that it reads.")
    answer = serializers.IntegerField(allow_null=True, help_text="The most tokens that it writes.")
    features = serializers.ListField(child=serializers.ChoiceField(choices=["tools", "vision", "reasoning", "schema"]))


class ServedSerializer(serializers.Serializer):
    models = serializers.ListField(child=serializers.CharField(), help_text="At most 1,000, in the server's order.")
    default_model = serializers.CharField(allow_blank=True)
    known = serializers.DictField(
        child=KnownModelSerializer(),
        help_text="What is known of these models by their names; of a server with a base URL nothing.",
    )


class TrialSerializer(StrictSerializer):
    model = Text(required=False, allow_blank=True, max_length=100, help_text="Default: the provider's default model.")
    requests = Flag(default=True, help_text="Ask the model four times, to see what it can do.")


class AbilitySerializer(serializers.Serializer):
    name = serializers.ChoiceField(choices=["plain", "stream", "tools", "schema"])
    ok = serializers.BooleanField()
    message = serializers.CharField(help_text="What it can do, or why not.")


class TrialResultSerializer(serializers.Serializer):
    ok = serializers.BooleanField()
    code = serializers.CharField(allow_blank=True, help_text="Why not, for programs.")
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)
    models = serializers.IntegerField(help_text="How many its server lists.")
    wall_ms = serializers.FloatField()
    abilities = AbilitySerializer(many=True, help_text="Of the model; empty: it was not asked.")
