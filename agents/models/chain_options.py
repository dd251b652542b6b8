"""Every option of a chain; see options.py. Those that agents.spec.ChainSpec has too are frozen in versions."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as later

from .display import Displayed, display_name_option, icon_option
from .options import between, option
from .team import Owned, pool_label


class ChainOptions(Displayed, Owned):
    class Strategy(models.TextChoices):
        GRAPH = "graph", "Graph: steps follow their needs"
        SEQUENTIAL = "sequential", "One after the other"
        PARALLEL = "parallel", "All at once"
        ROUTER = "router", "The first whose condition holds"

    class Sessions(models.TextChoices):
        STEP = "step", "One for each agent's step"
        RUN = "run", "One for the whole run, in which each step changes agent, tools and instructions"

    # fmt: off
    display_name = display_name_option("settings")
    icon = icon_option("settings")
    description = option(
        models.TextField(blank=True), "", "settings", later("What it does"),
        later("One sentence. People and agents choose by it."), rest={"max_length": 10_000},
    )
    strategy = option(
        models.CharField(max_length=10, choices=Strategy, default=Strategy.GRAPH), "", "settings",
        later("Order of the steps"), later("As they are connected, or by one of the presets."),
    )
    session = option(
        models.CharField(max_length=4, choices=Sessions, default=Sessions.STEP), "", "settings", later("Conversation"),
        later("Whether the agents of the steps see each other's messages."),
    )
    input_schema = option(
        models.JSONField(null=True, blank=True), "Input and output", "settings", later("Input schema"),
        later("JSON Schema of the input: the form of a try, and what steps can read."), kind="schema",
        admin_help=later("JSON Schema of the input; empty: anything."),
    )
    output_schema = option(
        models.JSONField(null=True, blank=True), "Input and output", "settings", later("Output schema"),
        later("The result must match this JSON Schema. Empty: anything."), kind="schema",
        admin_help=later("JSON Schema of the output; empty: anything."),
    )
    output = option(models.CharField(
        max_length=2000, blank=True, help_text="JMESPath for the result; empty: the last step's output."
    ), "Input and output", "settings", later("Result"), later("JMESPath. Empty: the output of the last step."))
    max_chain_depth = option(
        models.PositiveSmallIntegerField(default=3, validators=between(high=10)), "Limits", "settings",
        later("Chains below it"), later("How deep chains may be nested, 0 to 10."),
    )
    max_parallel = option(
        models.PositiveSmallIntegerField(default=16, validators=between(1, 256)), "Limits", "settings",
        later("Items at the same time"), later("Of one loop, 1 to 256."),
    )
    timeout = option(
        models.FloatField(default=3600.0, validators=between(0.1), help_text="Time limit of a run in seconds."),
        "Limits", "settings", later("Time limit of a run"),
        later("Seconds. Waiting for a person or in the queue does not count."),
        rest={"max_value": settings.MAX_RUN_S, "help_text": "Time limit of a run (s)."}, stored_as="timeout_s",
    )
    pool = option(
        pool_label(), "Queue", "settings", later("Pool of workers"),
        later("Only workers that serve this pool take its runs. Empty: the default."),
    )
    enabled = option(models.BooleanField(default=True), "")
    # fmt: on

    class Meta:
        abstract = True
