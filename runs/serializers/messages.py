"""Messages and their options as JSON."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.http.strict import (
    Choice,
    Flag,
    Many,
    Number,
    ObjectField,
    OptionalSchemaField,
    Pattern,
    SchemaField,
    StrictSerializer,
    Text,
    Whole,
    Words,
)
from agents.serializers.agents import ModelParamsSerializer
from runs.intake import caller_tools, options


class PartSerializer(serializers.Serializer):
    type = serializers.ChoiceField(choices=["text", "image", "file"])
    text = serializers.CharField(required=False)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["type"]}},
        ]
    }
)
class MessageTextField(serializers.Field):
    """A string, or a list of content parts."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, str):
            # PostgreSQL cannot store it.
            if "\x00" in data:
                raise serializers.ValidationError("A text cannot contain a NUL character.")
            return data
        if isinstance(data, list) and all(isinstance(part, dict) for part in data):
            return data
        raise serializers.ValidationError('Send a string, or a list of parts such as {"type": "text", "text": "…"}.')

    def to_representation(self, value: Any) -> Any:
        return value


class CallerToolSerializer(StrictSerializer):
    """A tool that the caller executes."""

    name = Pattern(caller_tools.NAME_PATTERN, help_text="Not the name of a tool of the agent.")
    description = Text(required=False, allow_blank=True, max_length=20_000)
    input_schema = SchemaField(required=False)
    timeout_s = Number(required=False, min_value=1, max_value=86_400, help_text="Default: 3600.")


class ToolPolicySerializer(StrictSerializer):
    """Narrows the agent's tools."""

    allowed = Words(required=False, allow_null=True, each=64, max_length=500, help_text="Only these; null: all.")
    blocked = Words(required=False, each=64, max_length=500)
    ask = Words(required=False, each=64, max_length=500, help_text="Ask a person before each call of these.")


class MostSerializer(StrictSerializer):
    """The most that the run and its child runs may use."""

    tokens = Whole(required=False, allow_null=True, min_value=1, max_value=10**12)
    cost = Number(required=False, allow_null=True, min_value=0, max_value=1_000_000, help_text="US dollars.")


# The other priorities follow from who or what starts a run.
BATCH_ALONE = ["batch"]


class PriorityField(Choice):
    """The one priority that can be asked for."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("help_text", "Its runs wait behind all others; null: who or what starts it decides.")
        super().__init__(choices=BATCH_ALONE, **kwargs)


class OptionsSerializer(StrictSerializer):
    """What a message may ask for beside its agent's definition (runs/intake/options.py)."""

    model = Text(required=False, allow_null=True, max_length=100, help_text="A model of the agent's provider.")
    model_params = ModelParamsSerializer(
        required=False, allow_null=True, help_text="Instead of the agent's, one by one."
    )
    instructions = Text(
        required=False, allow_null=True, allow_blank=True, max_length=options.MAX_INSTRUCTIONS,
        trim_whitespace=False, help_text="Added to the system prompt.",
    )  # fmt: skip
    variables = ObjectField(required=False, allow_null=True, help_text="Values for the variables of the system prompt.")
    tool_policy = ToolPolicySerializer(required=False, allow_null=True)
    output_schema = OptionalSchemaField(help_text="Instead of the agent's.")
    max_steps = Whole(
        required=False, allow_null=True, min_value=1, max_value=200, help_text="At most the agent's own limit."
    )
    budget = MostSerializer(required=False, allow_null=True)
    priority = PriorityField(required=False, allow_null=True)


class SendSerializer(OptionsSerializer):
    """Body of POST …/messages."""

    message = MessageTextField()
    session = serializers.UUIDField(required=False, allow_null=True)
    input = serializers.JSONField(required=False, allow_null=True)
    metadata = serializers.DictField(required=False)
    on_busy = Choice(choices=["reject", "enqueue", "interrupt"], default="reject")
    timeout = Number(required=False, min_value=0.1, max_value=86_400)
    wait = Number(required=False, min_value=0, max_value=600)
    device = serializers.UUIDField(required=False, allow_null=True)
    parent = serializers.UUIDField(
        required=False, allow_null=True, help_text="A session of yours: the message starts a new session below it."
    )
    tools = Many(
        child=CallerToolSerializer(), required=False, max_length=caller_tools.MOST,
        help_text="Tools that the caller executes in this run: it answers their input requests.",
    )  # fmt: skip
    version = Whole(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=2**31 - 1,
        help_text="The agent's version; null: the live one.",
    )
    draft = Flag(
        default=False, help_text="Try the agent's draft instead of a version: for people who may change the agent."
    )

    def validate(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["draft"] and body.get("version"):
            raise serializers.ValidationError({"draft": ["Send a version or “draft”, not both."]}, code="both")
        return body
