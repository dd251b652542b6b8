"""Hooks: stored functions that check tool calls and messages of runs, for an agent, a team or the site."""

from typing import Any, Self

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from plumbing.stored_rows import StoredRow

from .agent import Agent
from .options import between, option
from .team import Editable, Membership, Team
from .tool import Tool

# Hooks of one scope.
LIMIT = 20
ARGUMENT = "event"


class HookQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        """Those that may apply to this user's runs: of the agents they see, of their teams, of the site."""
        teams = Membership.objects.filter(user_id=user.pk).values("team_id")
        agents = Agent.objects.visible_to(user).values("pk")
        is_of_site = Q(agent=None, team=None)
        return self.filter(Q(agent__in=agents) | Q(team__in=teams) | is_of_site)

    def editable_by(self, user: Any) -> Self:
        """Those of the agents that they may change, of the teams they administer, for superusers of the site."""
        editable = Q(agent__in=Agent.objects.editable_by(user).values("pk"))
        editable |= Q(team__in=Team.objects.editable_by(user).values("pk"))
        if user.is_superuser:
            editable |= Q(agent=None, team=None)
        return self.filter(editable)

    def of_work(self, agent: Any, shared: Any) -> Self:
        """Enabled hooks of this agent, of the team that it is shared with, and of the site; `shared` is the agent
        as a query within this one names it.
        """
        teams = Agent.objects.filter(pk=shared, team__isnull=False).values("team_id")
        is_of_site = Q(agent=None, team=None)
        return self.filter(Q(agent_id=agent) | Q(team_id__in=teams) | is_of_site, enabled=True)


class Hook(Editable, StoredRow):
    """At most one of `agent` and `team` is set; a hook with neither belongs to the site."""

    class Place(models.TextChoices):
        BEFORE_TOOL = "before_tool", "Before a tool call"
        AFTER_TOOL = "after_tool", "After a tool call"
        MESSAGE_IN = "message_in", "A message to an agent"
        MESSAGE_OUT = "message_out", "A message from an agent"

    place = models.CharField(max_length=11, choices=Place.choices)
    tool = models.ForeignKey(
        Tool, on_delete=models.PROTECT, related_name="hooks", limit_choices_to={"kind": Tool.Kind.FUNCTION},
        help_text="The stored function.",
    )  # fmt: skip
    # fmt: off
    pinned_version = option(models.PositiveIntegerField(
        null=True, blank=True, help_text="Empty: follow the published version of the function."
    ), "", rest={"min_value": 1, "max_value": 2**31 - 1})
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, blank=True, related_name="hooks")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, null=True, blank=True, related_name="hooks")
    tools = option(models.JSONField(
        default=list, blank=True, help_text="Names of tools that it checks, with * as a wildcard; empty: all."
    ), "", kind="lines", rest={"each": 64, "max_length": 50})
    position = option(models.PositiveSmallIntegerField(
        default=0,
        help_text="Order within its scope. The site's hooks come first, then the team's, then the agent's.",
    ), "", rest={"max_value": 32_767})
    timeout_s = option(
        models.FloatField(default=2.0, validators=between(0.05, 30.0), help_text="Seconds of one call."), ""
    )
    enabled = option(models.BooleanField(default=True), "")
    # fmt: on
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = HookQuerySet.as_manager()

    class Meta:
        ordering = ["position", "id"]
        constraints = [models.CheckConstraint(condition=Q(agent=None) | Q(team=None), name="hook_has_one_scope")]
        indexes = [models.Index(fields=["enabled", "agent"]), models.Index(fields=["enabled", "team"])]

    def __str__(self) -> str:
        return f"{self.place} {self.tool}"

    @property
    def scope(self) -> str:
        if self.agent_id:
            return "agent"
        return "team" if self.team_id else "site"

    def clean(self) -> None:
        problem = unfit(self.tool) if self.tool_id else ""
        if problem:
            raise ValidationError({"tool": problem})
        if not isinstance(self.tools, list) or not all(isinstance(name, str) and name for name in self.tools):
            raise ValidationError({"tools": "It must be a list of names."})
        if self.tools and self.place in (self.Place.MESSAGE_IN, self.Place.MESSAGE_OUT):
            raise ValidationError({"tools": "Only hooks of tool calls choose tools."})
        others = type(self).objects.filter(agent=self.agent_id, team=self.team_id).exclude(pk=self.pk)
        if others.count() >= LIMIT:
            raise ValidationError(f"There are {LIMIT} hooks already.")


def unfit(tool: Tool) -> str:
    """Why this tool cannot be a hook; empty if it can: a published function of one argument, `event`."""
    if tool.kind != Tool.Kind.FUNCTION:
        return "Only a stored function can be a hook."
    schema = tool.input_schema or {}
    other_required = set(schema.get("required", ())) - {ARGUMENT}
    if ARGUMENT not in schema.get("properties", {}) or other_required:
        return f"Its only required parameter must be “{ARGUMENT}”."
    return ""
