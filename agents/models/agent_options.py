"""Every option of an agent. One that is declared here appears at every door; CONTRIBUTING.md shows how to add one."""

from typing import Any, Literal

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as later

from agents.spec import Frozen, GrantSpec, ModelParams

from .display import Displayed, display_name_option, icon_option
from .options import between, option, spec_field
from .provider import Provider
from .team import Owned, make_cap, pool_label


class AgentOptions(Displayed, Owned):
    """The options as columns. Those that AgentSpec has too are frozen in versions; the others take effect at once."""

    class SessionContext(models.TextChoices):
        NONE = "none", "None: every message stands alone"
        LAST_N = "last_n", "The last messages"
        SUMMARY = "summary", "A running summary and the last messages"

    class A2aReply(models.TextChoices):
        TASK = "task", "The task, with the text as an artifact"
        MESSAGE = "message", "The text as a message"

    class Memory(models.TextChoices):
        OFF = "off", "Off: nothing is put into its prompts"
        SUGGEST = "suggest", "What it remembers waits for the person’s approval"
        AUTO = "auto", "What it remembers holds at once"

    class MemorySummary(models.TextChoices):
        OFF = "off", "Off"
        SUGGEST = "suggest", "Its facts wait for the person’s approval"
        AUTO = "auto", "Its facts hold at once"

    # fmt: off
    display_name = display_name_option("writing")
    icon = icon_option("writing")
    description = option(
        models.TextField(blank=True, help_text="What it does, in one sentence; used by the router."), "", "writing",
        later("What it does"), later("One sentence. People, the router and other agents choose by it."),
        rest={"max_length": 10_000},
    )
    system_prompt = option(
        models.TextField(blank=True, help_text="Its instructions."), "Instructions", "writing", later("Instructions"),
        later(
            "The model gets them before each conversation. With variables (tab Data) they are a template: "
            "{{ customer }}, {% if orders %} … {% endif %}."
        ), kind="long", rest={"max_length": 200_000, "trim_whitespace": False},
    )
    provider = option(models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="agents"), "Model")
    model_name = option(models.CharField(
        max_length=100, blank=True, help_text="For example gpt-5-mini; empty: the provider's default model."
    ), "Model")
    model_params = option(models.JSONField(
        default=dict, blank=True, help_text="temperature, top_p, presence_penalty, frequency_penalty, max_tokens."
    ), "Model", kind="json")
    fallback_models = option(models.JSONField(
        default=list, blank=True, help_text="Model names of the same provider to try when the first fails."
    ), "Model", "model", later("Fallback models"), later("Models of the same provider to try when the first fails."),
        kind="lines", admin_help=later("Models of the same provider to try when the first fails, one per line."),
        rest={"each": 100, "max_length": 10},
    )
    input_schema = option(
        models.JSONField(null=True, blank=True), "Input and output", "data", later("Input schema"),
        later("JSON Schema of data that a message must bring along. Empty: none."), kind="schema",
        admin_help=later("JSON Schema of the structured input; empty: plain text only."),
    )
    output_schema = option(
        models.JSONField(null=True, blank=True, help_text="The reply must be JSON that matches this schema."),
        "Input and output", "data", later("Output schema"),
        later("The reply must be JSON that matches this JSON Schema. Empty: text."), kind="schema",
        admin_help=later("The reply must be JSON that matches this schema; empty: plain text."),
    )
    variables = option(models.JSONField(
        default=dict, blank=True,
        help_text='Values that a message gives: {"customer": {"type": "string", "default": "…"}}. The system '
            "prompt is then a template.",
    ), "Instructions", "data", later("Variables"),
        later("Values that a message gives to the instructions: name to JSON Schema."), kind="json",
    )
    capabilities = option(
        models.JSONField(default=list, blank=True, help_text="Words for what it can do; used by the router."),
        "Routing", "data", later("Capabilities"),
        later("Words for what it can do; the router and other agents find it by them."), kind="lines",
        admin_help=later("Words for what it can do, one per line; used by the router."), rest={"each": 64},
    )
    examples = option(
        models.JSONField(default=list, blank=True, help_text="Examples of messages it should get; used by the router."),
        "Routing", "writing", later("Example messages"), later("Shown before a conversation, and used by the router."),
        kind="lines", admin_help=later("Examples of messages it should get, one per line; used by the router."),
        rest={"each": 2000},
    )
    delegates_to = option(
        models.JSONField(default=list, blank=True, help_text="Capabilities it may delegate to."), "Routing", "data",
        later("Delegates to"), later("Capabilities of other agents that it may give work to."), kind="lines",
        admin_help=later("Capabilities it may delegate to, one per line."), rest={"each": 64},
    )
    max_steps = option(
        models.PositiveSmallIntegerField(default=12, validators=between(1, 200)), "Limits", "limits",
        later("Steps of a run"), later("How often the model is asked in one run, 1 to 200."),
    )
    timeout = option(
        models.FloatField(default=300.0, validators=between(0.1), help_text="Time limit of a run in seconds."),
        "Limits", "limits", later("Time limit of a run"),
        later("Seconds. Waiting for a person or in the queue does not count."),
        rest={"max_value": settings.MAX_RUN_S}, stored_as="timeout_s",
    )
    max_chain_depth = option(
        models.PositiveSmallIntegerField(default=3, validators=between(high=10)), "Limits", "limits",
        later("Chains below it"), later("How deep chains may be nested, 0 to 10."),
    )
    max_agent_depth = option(
        models.PositiveSmallIntegerField(default=1, validators=between(high=10)), "Limits", "limits",
        later("Agents below it"), later("How deep agents may call each other, 0 to 10."),
    )
    session_context = option(
        models.CharField(max_length=8, choices=SessionContext, default=SessionContext.LAST_N), "Session", "limits",
        later("What it remembers"), later("Of the conversation, in each new message."),
    )
    context_messages = option(
        models.PositiveSmallIntegerField(default=20, validators=between(1, 500)), "Session", "limits",
        later("Messages it remembers"), later("1 to 500."),
    )
    context_tokens = option(
        models.PositiveIntegerField(default=8000, validators=between(100, 2_000_000)), "Session", "limits",
        later("Tokens it remembers"), later("100 to 2,000,000."),
    )
    memory = option(models.CharField(
        max_length=7, choices=Memory, default=Memory.OFF,
        help_text="Whether its prompts contain what is remembered.",
    ), "Memory", "limits", later("Memory"), later("What it knows of earlier conversations. Takes effect at once."))
    memory_tokens = option(models.PositiveIntegerField(
        default=500, validators=between(50, 20_000),
        help_text="How many tokens of memories a prompt contains at most.",
    ), "Memory", "limits", later("Tokens of memories"), later("Of each prompt at most, 50 to 20,000."))
    memory_summary = option(models.CharField(
        max_length=7, choices=MemorySummary, default=MemorySummary.OFF,
        help_text="Whether the agent notes facts after a conversation, and whether a person approves them first.",
    ), "Memory", "limits", later("Memory after a conversation"),
        later("Its model notes facts when a conversation has rested: one more model call. Takes effect at once."),
    )
    pool = option(
        pool_label(), "Queue", "limits", later("Pool of workers"),
        later("Only workers that serve this pool take its runs. Empty: the default."),
    )
    max_running = option(
        make_cap("this agent"), "Queue", "limits", later("Runs at the same time"), later("Empty: any number."),
    )
    public_card = option(models.BooleanField(
        default=False,
        help_text="Anybody may read its A2A card, without a key: name, description, capabilities, examples.",
    ), "A2A")
    a2a_reply = option(models.CharField(
        max_length=7, choices=A2aReply, default=A2aReply.TASK,
        help_text="What an A2A client gets for a message whose answer is a text.",
    ), "A2A")
    enabled = option(models.BooleanField(default=True), "")
    # fmt: on

    class Meta:
        abstract = True


class AgentSpec(Frozen):
    """An agent version: instructions, model, granted tools, limits. Defaults and limits are those of the columns."""

    name: str
    description: str = ""
    system_prompt: str = ""
    provider: str = ""
    provider_id: int | None = None
    model_name: str = ""
    model_params: ModelParams = ModelParams()
    fallback_models: list[str] = []
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    variables: dict[str, dict[str, Any]] = {}
    capabilities: list[str] = []
    examples: list[str] = []
    delegates_to: list[str] = []
    grants: list[GrantSpec] = []
    max_steps: int = spec_field(AgentOptions, "max_steps")
    timeout_s: float = spec_field(AgentOptions, "timeout")
    max_chain_depth: int = spec_field(AgentOptions, "max_chain_depth")
    max_agent_depth: int = spec_field(AgentOptions, "max_agent_depth")
    session_context: Literal["none", "last_n", "summary"] = spec_field(AgentOptions, "session_context")
    context_messages: int = spec_field(AgentOptions, "context_messages")
    context_tokens: int = spec_field(AgentOptions, "context_tokens")
