"""The catalogue of tools, and the grants of agents and chains."""

from django.db import models
from django.db.models import Q

from agents.schema import hash_json
from plumbing.stored_rows import StoredRow

from .options import option
from .team import Owned, OwnedQuerySet, check_name, one_name_per_owner


class Tool(Owned):
    class Kind(models.TextChoices):
        FUNCTION = "function", "Stored function"
        CONNECTOR = "connector", "Cloud connector"
        DEVICE = "device", "On the user's device"
        AGENT = "agent", "Another agent (minion)"
        CHAIN = "chain", "A chain"
        MCP = "mcp", "MCP server"
        HTTP = "http", "HTTP operation"
        A2A = "a2a", "Remote agent (A2A)"
        KNOWLEDGE = "knowledge", "Memory or collection"
        SKILL = "skill", "Skill"
        BUILTIN = "builtin", "Built in"

    class Effect(models.TextChoices):
        READ = "read", "Reads only"
        READ_OUT = "read_out", "Reads, and its arguments leave the site (a URL, a search query)"
        IDEMPOTENT = "idempotent", "Safe to repeat"
        WRITE = "write", "Changes something"
        SENDS_OUT = "sends_out", "Sends something"
        DESTRUCTIVE = "destructive", "Cannot be undone"

    name = models.CharField(max_length=64, validators=[check_name])
    kind = models.CharField(max_length=12, choices=Kind.choices)
    description = option(models.TextField(blank=True), "")
    input_schema = option(models.JSONField(default=dict, blank=True), "Definition", kind="schema")
    output_schema = option(models.JSONField(null=True, blank=True), "Definition", kind="schema")
    effect = option(models.CharField(max_length=12, choices=Effect.choices, default=Effect.WRITE), None)
    source = models.JSONField(
        default=dict, blank=True, help_text='What its toolset needs to find it, such as {"function": 12, "version": 3}.'
    )
    definition_hash = models.CharField(max_length=64, editable=False, blank=True)
    enabled = option(models.BooleanField(default=True), "Use")
    # fmt: off
    untrusted = option(models.BooleanField(
        default=False, help_text="Its results contain text written by others (mail, web, files)."
    ), "Use")
    record_fields = option(models.JSONField(
        default=list, blank=True,
        help_text="Of an untrusted result: names of fields that the service itself sets, such as ids and times. “[]” "
            "stands for the entries of a list of names.",
    ), "Use", kind="lines")
    # fmt: on
    deadline_s = option(models.FloatField(default=30.0, help_text="Time limit of a call in seconds."), "Use")

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("tool")

    def __str__(self) -> str:
        return self.name

    def definition(self) -> dict:
        """The definition shown to a model and used to check calls."""
        return {
            "name": self.name,
            "kind": self.kind,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "effect": self.effect,
            "source": self.source,
        }

    @property
    def mode_when_granted(self) -> str:
        """The mode of a grant that names none: ask if calls of this tool cannot be undone, otherwise allow."""
        if self.effect == self.Effect.DESTRUCTIVE:
            return ToolGrant.Mode.ASK
        return ToolGrant.Mode.ALLOW

    def freeze_hash(self) -> str:
        """Set `definition_hash` from the definition and return it; call this after a change, before saving."""
        self.definition_hash = hash_json(self.definition())
        return self.definition_hash


# The most grants of one agent or chain.
MOST_GRANTS = 500


class ToolGrant(StoredRow):
    class Mode(models.TextChoices):
        ALLOW = "allow"
        ASK = "ask", "ask for approval"
        DENY = "deny"

    class Decider(models.TextChoices):
        STARTER = "starter", "the person whose run it is"
        OWNER = "owner", "the owner of the agent or chain"
        TEAM = "team", "its team, except viewers"
        ROLE = "role", "a role in its team"

    class Offline(models.TextChoices):
        FAIL = "fail", "fail with a clear error"
        WAIT = "wait", "wait for the device"
        ANY = "any", "any device that offers the tool"

    agent = models.ForeignKey("agents.Agent", on_delete=models.CASCADE, null=True, blank=True, related_name="grants")
    chain = models.ForeignKey("agents.Chain", on_delete=models.CASCADE, null=True, blank=True, related_name="grants")
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="grants")
    mode = models.CharField(max_length=5, choices=Mode.choices, default=Mode.ALLOW)
    pinned_version = models.PositiveIntegerField(
        null=True, blank=True, help_text="Empty: follow the published version."
    )
    deadline_s = models.FloatField(null=True, blank=True, help_text="Seconds; empty: the tool's own time limit.")
    offline = models.CharField(max_length=4, choices=Offline.choices, default=Offline.FAIL)
    context = models.JSONField(
        default=list, blank=True,
        help_text='Of an agent: what it reads of its caller\'s session, such as [{"source": "summary"}].',
    )  # fmt: skip
    allow_after_untrusted = models.BooleanField(
        default=False, help_text="Do not ask only because the run has read text written by others."
    )
    decides = models.CharField(
        max_length=7, choices=Decider.choices, default=Decider.STARTER, help_text="Who answers when this tool asks."
    )
    decider_role = models.CharField(max_length=64, blank=True, help_text="Which role, if “a role in the team” decides.")
    not_starter = models.BooleanField(default=False, help_text="The person whose run asks may not answer.")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(agent=None, chain__isnull=False) | Q(agent__isnull=False, chain=None),
                name="grant_has_one_subject",
            ),
            models.UniqueConstraint(fields=["agent", "tool"], condition=Q(chain=None), name="grant_once_per_agent"),
            models.UniqueConstraint(fields=["chain", "tool"], condition=Q(agent=None), name="grant_once_per_chain"),
        ]

    def __str__(self) -> str:
        holder = self.agent or self.chain
        return f"{holder} may use {self.tool}: {self.mode}"
