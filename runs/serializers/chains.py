"""Chains, their steps and their runs as JSON."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.exceptions import Invalid
from agents.graph import MAX_STEPS
from agents.http.grant_serializers import GrantSerializer, read_grants, replace_grants
from agents.http.strict import Flag, Named, Number, ObjectField, StrictSerializer, Text, Whole
from agents.http.version_serializers import NumberedSerializer
from agents.models import Chain, ChainStep, ChainVersion, Tool, ToolGrant
from agents.models.chain import read_step
from agents.models.chain_targets import Targets
from agents.models.options import find_options
from agents.models.tool import MOST_GRANTS
from agents.serializers.owned import OWNED, DisplayedSerializer
from runs.models import StepRun

from .messages import PriorityField

# Effects of tools that a chain may only use after a person's yes, unless its author says otherwise.
ASKS_FIRST = frozenset(["sends_out", "destructive"])
# The documentation of a step: StepSpec reads it.
STEP_SCHEMA = {
    "type": "object",
    "required": ["key"],
    "properties": {
        "key": {"type": "string"},
        "agent": {"type": "string", "description": "Name of the agent, tool or chain."},
        "tool": {"type": "string"},
        "chain": {"type": "string"},
        "needs": {"type": "array", "items": {"type": "string"}},
        "input": {"type": "object", "description": 'Parameter → JMESPath, {"value": …} or {"path": …, "default": …}.'},
        "when": {"type": "string"},
        "for_each": {"type": "string"},
        "max_parallel": {"type": "integer"},
        "repeat_until": {"type": ["object", "null"], "description": '{"condition": JMESPath, "limit": n}'},
        "retry": {"type": "object", "description": '{"attempts", "backoff_s", "max_backoff_s", "jitter"}'},
        "on_error": {"enum": ["stop", "continue", "fallback"]},
        "fallback": {"type": "string"},
        "timeout_s": {"type": "number"},
        "approval": {"type": "boolean"},
        "approval_expires_s": {"type": "number"},
        "policy": {"type": "object", "description": '{"allowed": [tool] or null, "blocked": [tool], "ask": [tool]}'},
        "max_turns": {"type": ["integer", "null"]},
        "output_schema": {"type": ["object", "null"]},
        "model": {"type": "string", "description": "For an agent: another model of its provider."},
        "instructions": {"type": "string", "description": "For an agent: added to its system prompt."},
        "variables": {"type": "object", "description": "For an agent: variable → JMESPath, as in `input`."},
        "covers": {"type": ["object", "null"], "description": '{"values": JMESPath, "by": JMESPath}: two lists'},
        "context": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": True},
            "description": '{"source": summary, compact, session, transcript or file, "step"?, "id"?, "last"?}',
        },
    },
}


@extend_schema_field({"type": "array", "items": STEP_SCHEMA})
class StepsField(serializers.Field):
    """The steps in order, in the format of StepSpec, with `agent:`, `tool:` or `chain:` for the
    target.
    """

    default_error_messages = {"shape": "Send a list of at most 200 steps, each an object with a key."}

    def to_internal_value(self, data: Any) -> list[dict[str, Any]]:
        if not isinstance(data, list) or len(data) > MAX_STEPS:
            self.fail("shape")
        if not all(isinstance(step, dict) for step in data):
            self.fail("shape")
        for step in data:
            check_step(step)
        return data

    def to_representation(self, steps: Any) -> list[dict[str, Any]]:
        return [step.as_written() for step in steps.all()]


def check_step(step: dict[str, Any]) -> None:
    """Types and limits of one step's fields. Raises Invalid, naming the step."""
    if not isinstance(step.get("key"), str):
        raise serializers.ValidationError("Every step needs a key.", code="no_key")
    columns = read_step(step)
    row = ChainStep(**columns)
    spec = row.spec(None)
    # Here the error can name the step.
    for name, limit in (("when", 2000), ("for_each", 2000), ("target", 64), ("key", 64)):
        if len(getattr(spec, name)) > limit:
            raise Invalid(f"Step “{spec.key[:64]}”: {name} is longer than {limit} characters.", code="too_long")


class ProblemSerializer(serializers.Serializer):
    step = serializers.CharField(allow_blank=True)
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)


class ChainSerializer(DisplayedSerializer):
    steps = StepsField(required=False)
    grants = GrantSerializer(  # type: ignore[call-arg]
        many=True, required=False, max_length=MOST_GRANTS, help_text="Default: one for each tool that a step names."
    )
    published_version = serializers.IntegerField(source="published.number", read_only=True, allow_null=True)

    class Meta:
        model = Chain
        fields = ["name", *find_options(Chain), "steps", "grants", "published_version", *OWNED]

    def validate_grants(self, grants: list[dict[str, Any]]) -> list[ToolGrant]:
        return read_grants(self.context["request"].user, grants)

    def create(self, validated: dict[str, Any]) -> Chain:
        steps = validated.pop("steps", [])
        grants = validated.pop("grants", None)
        chain = super().create(validated)
        chain.replace_steps(steps)
        write_grants(chain, grants)
        return chain

    def update(self, chain: Chain, validated: dict[str, Any]) -> Chain:
        # A PUT without steps removes them, a PATCH leaves them.
        steps = validated.pop("steps", [] if self.replaces else None)
        grants = validated.pop("grants", None)
        if self.replaces:
            chain.grants.all().delete()
        chain = super().update(chain, validated)
        if steps is not None:
            chain.replace_steps(steps)
        if grants is not None or steps is not None:
            write_grants(chain, grants)
        return chain


def write_grants(chain: Chain, grants: list[ToolGrant] | None) -> None:
    """The given grants; else one for each tool that a step names: `ask` if it sends or destroys
    something.
    """
    if grants is not None:
        replace_grants(chain, grants)
        return
    steps = list(chain.steps.filter(target_kind=ChainStep.Target.TOOL))
    granted = set(chain.grants.values_list("tool_id", flat=True))
    # Several names may mean one tool.
    tools: dict[int, Tool] = {tool.pk: tool for tool in Targets(chain, steps).rows["tool"].values()}
    missing: list[ToolGrant] = []
    for tool in tools.values():
        if tool.pk not in granted:
            mode = "ask" if tool.effect in ASKS_FIRST else "allow"
            missing.append(ToolGrant(chain=chain, tool=tool, mode=mode))
    ToolGrant.objects.bulk_create(missing)


class ChainVersionSerializer(NumberedSerializer):
    of = "chain"

    class Meta(NumberedSerializer.Meta):
        model = ChainVersion


class WholeChainVersionSerializer(ChainVersionSerializer):
    spec = ObjectField(read_only=True)

    class Meta(ChainVersionSerializer.Meta):
        fields = [*ChainVersionSerializer.Meta.fields, "spec"]


class PinSerializer(StrictSerializer):
    """The output of a step that does not run."""

    value = serializers.JSONField(required=False, allow_null=True, help_text="The output. Default: the run's.")
    run = serializers.UUIDField(
        required=False, help_text="Your earlier run of this chain whose output of the step it is."
    )

    def validate(self, pin: dict[str, Any]) -> dict[str, Any]:
        if not pin:
            raise serializers.ValidationError("Send a value, or the id of a run.", code="nothing_to_pin")
        if "run" in pin:
            pin = {**pin, "run": str(pin["run"])}
        return pin


class StartSerializer(StrictSerializer):
    input = serializers.JSONField(required=False, allow_null=True)
    version = Whole(
        min_value=1, max_value=2**31 - 1, required=False, allow_null=True, help_text="Null: the published version."
    )
    metadata = serializers.DictField(required=False)
    priority = PriorityField(required=False, allow_null=True)
    timeout = Number(required=False, min_value=0.1, max_value=86_400)
    wait = Number(
        required=False, min_value=0, max_value=600, help_text="Seconds to wait for the end; 0: answer 202 at once."
    )
    draft = Flag(
        default=False, help_text="Try the chain's draft instead of a version: for people who may change the chain."
    )
    until = Text(
        max_length=64, default="", allow_blank=True, help_text="Of a draft: run only this step and those it needs."
    )
    pinned = Named(
        most=MAX_STEPS,
        child=PinSerializer(),
        default=dict,
        help_text="Of a draft: step → its output; these steps do not run.",
    )

    def validate(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["draft"] and body.get("version"):
            raise serializers.ValidationError({"draft": ["Send a version or “draft”, not both."]}, code="both")
        # A version runs as it was published, and whole.
        for name in ("until", "pinned"):
            if body[name] and not body["draft"]:
                raise serializers.ValidationError(
                    {name: ["Only a try of the draft can have this."]}, code="not_a_draft"
                )
        return body


class RetrySerializer(StrictSerializer):
    step = Text(
        max_length=64, required=False, help_text="For a chain: the step to continue from; default: the failed step."
    )
    input = serializers.JSONField(
        required=False, allow_null=True, help_text="Replaces the step's mapped input, or the agent's input."
    )
    live = Flag(required=False, help_text="For an agent: use the live version; default: the same version as before.")


class NodeSerializer(serializers.Serializer):
    key = serializers.CharField()
    kind = serializers.CharField()
    target = serializers.CharField(allow_blank=True)
    when = serializers.CharField(allow_blank=True)
    for_each = serializers.CharField(allow_blank=True)
    x = serializers.IntegerField()
    y = serializers.IntegerField()
    status = serializers.CharField(allow_null=True)
    done = serializers.IntegerField()
    total = serializers.IntegerField()


class EdgeSerializer(serializers.Serializer):
    vars()["from"] = serializers.CharField()
    to = serializers.CharField()
    kind = serializers.ChoiceField(choices=["needs", "instead"])


class GraphSerializer(serializers.Serializer):
    nodes = NodeSerializer(many=True)
    edges = EdgeSerializer(many=True)
    problems = ProblemSerializer(many=True)


class StepRunSerializer(serializers.ModelSerializer):
    child = serializers.UUIDField(source="child_id", allow_null=True)
    call = serializers.UUIDField(source="call_id", allow_null=True)
    input = serializers.JSONField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    error = serializers.JSONField(allow_null=True)
    item = serializers.IntegerField(help_text="Index of the for_each item; -1: the step itself.")

    class Meta:
        model = StepRun
        fields = [
            "id", "key", "item", "status", "pinned", "child", "call", "attempt", "repeat", "total", "done", "failed",
            "wake_at",
            "input", "output", "error", "started_at", "finished_at",
        ]  # fmt: skip
