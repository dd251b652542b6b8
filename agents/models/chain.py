"""Chain: a graph of steps that an author edits. ChainVersion: what publish froze."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from agents.spec import ChainSpec

from .team import Owned, OwnedQuerySet, check_name, one_name_per_owner
from .version import Version


class Chain(Owned):
    class Strategy(models.TextChoices):
        GRAPH = "graph", "Graph: steps follow their needs"
        SEQUENTIAL = "sequential", "One after the other"
        PARALLEL = "parallel", "All at once"
        ROUTER = "router", "The first whose condition holds"

    name = models.CharField(max_length=64, validators=[check_name])
    description = models.TextField(blank=True)
    strategy = models.CharField(max_length=10, choices=Strategy.choices, default=Strategy.GRAPH)
    input_schema = models.JSONField(null=True, blank=True)
    output_schema = models.JSONField(null=True, blank=True)
    output = models.CharField(
        max_length=2000, blank=True, help_text="JMESPath for the result; empty: the last step's output."
    )
    max_chain_depth = models.PositiveSmallIntegerField(default=3, validators=[MaxValueValidator(10)])
    max_parallel = models.PositiveSmallIntegerField(
        default=16, validators=[MinValueValidator(1), MaxValueValidator(256)]
    )
    timeout = models.FloatField(
        default=3600.0, validators=[MinValueValidator(0.1)], help_text="Seconds a run may take."
    )
    enabled = models.BooleanField(default=True)
    published = models.ForeignKey(
        "ChainVersion", on_delete=models.PROTECT, null=True, blank=True, related_name="+", editable=False
    )

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("chain")

    def __str__(self) -> str:
        return self.name


class ChainStep(models.Model):
    """One step; `spec` holds what agents.spec.StepSpec reads besides the columns."""

    class Target(models.TextChoices):
        AGENT = "agent"
        TOOL = "tool"
        CHAIN = "chain"
        ROUTER = "router", "whoever the router picks"

    chain = models.ForeignKey(Chain, on_delete=models.CASCADE, related_name="steps")
    key = models.SlugField(max_length=64, help_text="Its name inside the chain.")
    position = models.PositiveSmallIntegerField(default=0)
    target_kind = models.CharField(max_length=8, choices=Target.choices, default=Target.TOOL)
    target = models.CharField(max_length=64, blank=True, help_text="Name of the agent, tool or chain.")
    target_version = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: what is published.")
    needs = models.JSONField(default=list, blank=True, help_text="Keys of the steps that must end first.")
    input = models.JSONField(default=dict, blank=True, help_text='Parameter → JMESPath, or a constant as {"value": …}.')
    when = models.CharField(max_length=2000, blank=True, help_text="JMESPath; the step is skipped where it is false.")
    for_each = models.CharField(
        max_length=2000, blank=True, help_text="JMESPath to a list or an object; one item a time."
    )
    options = models.JSONField(
        default=dict, blank=True, help_text="retry, on_error, fallback, timeout_s, approval, policy, repeat_until, …"
    )

    class Meta:
        ordering = ["position", "id"]
        constraints = [models.UniqueConstraint(fields=["chain", "key"], name="step_key_once")]

    def __str__(self) -> str:
        return self.key


class ChainVersion(Version):
    chain = models.ForeignKey(Chain, on_delete=models.PROTECT, related_name="versions")
    spec = models.JSONField()

    class Meta(Version.Meta):
        constraints = [
            models.UniqueConstraint(fields=["chain", "number"], name="chain_version_number"),
            models.UniqueConstraint(fields=["chain", "sha256"], name="chain_version_content"),
        ]

    def __str__(self) -> str:
        return f"{self.chain.name} v{self.number}"

    def read_spec(self) -> ChainSpec:
        return ChainSpec.model_validate(self.spec)
