"""An account at a model provider: address, key, prices."""

from decimal import ROUND_CEILING, Decimal
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models

from agents import known_models
from agents.fields import EncryptedTextField
from agents.known_models import KnownModel
from plumbing.http.addresses import url_refusal

from .options import option
from .team import Owned, OwnedQuerySet, check_name, is_capped, make_cap, one_name_per_owner

MILLION = Decimal(1_000_000)
# Units per dollar: budgets count in whole numbers, which add up exactly in every database.
UNITS = 10**8
MOST_UNITS = 2**60


def units(dollars: Decimal) -> int:
    """Whole hundred-millionths of a US dollar, rounded up."""
    number = int((dollars * UNITS).to_integral_value(ROUND_CEILING))
    return min(number, MOST_UNITS)


def convert_to_dollars(number: int) -> Decimal:
    return Decimal(number) / UNITS


def check_model_url(value: str) -> None:
    """Private addresses must be allowed by an administrator. A name that cannot be resolved now is
    checked when called.
    """
    refusal = url_refusal(value, settings.PRIVATE_HOSTS_ALLOWED, must_resolve=False)
    if refusal:
        raise ValidationError(refusal, code="private_address")


class Provider(Owned):
    class Kind(models.TextChoices):
        OPENAI = "openai", "OpenAI"
        ANTHROPIC = "anthropic", "Anthropic"
        GOOGLE = "google", "Google Gemini"
        OLLAMA = "ollama", "Ollama"
        COMPATIBLE = "openai-compatible", "OpenAI-compatible server"
        OFFLINE = "offline", "Offline (no language model)"

    class ToolCalling(models.TextChoices):
        NATIVE = "native", "Native tool calls"
        SCHEMA = "schema", "JSON-Schema-constrained (small local models)"

    class Api(models.TextChoices):
        CHAT = "chat", "Chat completions API"
        RESPONSES = "responses", "Responses API"

    class Thinking(models.TextChoices):
        SPLIT = "split", "Separate thoughts from replies"
        TEXT = "text", "Leave texts as they are"

    name = models.CharField(max_length=64, validators=[check_name])
    kind = models.CharField(max_length=20, choices=Kind.choices)
    api_key = EncryptedTextField(blank=True, help_text="Write-only.")
    # fmt: off
    base_url = option(models.URLField(
        blank=True, validators=[check_model_url],
        help_text="Empty: the provider's own address. Changing it clears the key.",
    ), "")
    api = option(
        models.CharField(
            max_length=9, choices=Api, default=Api.CHAT,
            help_text="Which of OpenAI's APIs is spoken; other kinds have one.",
        ), "Models and prices",
    )
    tool_calling = option(
        models.CharField(max_length=8, choices=ToolCalling, default=ToolCalling.NATIVE), "Models and prices",
    )
    thinking = option(
        models.CharField(
            max_length=5, choices=Thinking, default=Thinking.SPLIT,
            help_text="What becomes of thoughts that a model writes as a block “think” at the beginning of an answer.",
        ), "Models and prices",
    )
    default_model = option(models.CharField(
        max_length=100, blank=True, help_text="The model of agents that name none, when they are published."
    ), "Models and prices")
    prices = option(models.JSONField(
        default=dict, blank=True,
        help_text='US dollars per million tokens: {"gpt-5-mini": {"input": 0.25, "output": 2}}; "*" is '
            'any other model.',
    ), "Models and prices", kind="json")
    max_running = option(make_cap("agents with this provider"), "Queue")
    enabled = option(models.BooleanField(default=True), "")
    # fmt: on
    revision = models.PositiveIntegerField(default=1, editable=False)
    # The last test; a change of the provider voids it.
    tested_at = models.DateTimeField(null=True, editable=False)
    test_code = models.CharField(max_length=40, blank=True, editable=False, help_text="Why it failed; empty: passed.")

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("provider")
        indexes = [is_capped("provider_capped")]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        """off, ready (needs no server), untested, works or failing: what the last test found."""
        if not self.enabled:
            return "off"
        if self.kind == self.Kind.OFFLINE:
            return "ready"
        if self.tested_at is None:
            return "untested"
        return "failing" if self.test_code else "works"

    def cost(self, model_name: str, input_tokens: int, output_tokens: int) -> Decimal:
        """US dollars for that many tokens; 0 if no price is set or known."""
        price = self.find_price(model_name)
        cost_of_input = Decimal(str(price.get("input", 0))) * input_tokens
        cost_of_output = Decimal(str(price.get("output", 0))) * output_tokens
        return (cost_of_input + cost_of_output) / MILLION

    def find_price(self, model_name: str) -> dict[str, Any]:
        """US dollars per million tokens as "input" and "output": what was set, else what is known, else {}."""
        price = self.prices.get(model_name) or self.prices.get("*")
        if price:
            return price
        model = self.known_model(model_name)
        if model is None:
            return {}
        return {"input": model.input, "output": model.output}

    def known_model(self, model_name: str) -> KnownModel | None:
        """What is known of this model; None at another address than the service's own, which may offer another model
        under the same name.
        """
        if self.base_url:
            return None
        return known_models.find_model(self.kind, model_name)
