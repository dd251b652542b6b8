"""Limits on tokens, cost and runs. The maximum of a model call is held before it and settled after
it.
"""

from decimal import Decimal
from typing import Any, Self

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from agents.models import Agent, Team
from agents.models.team import Membership
from plumbing import clock
from plumbing.stored_rows import StoredRow

from .embed import Embed
from .run import Run


class BudgetQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        teams = Membership.objects.filter(user_id=user.pk).values("team_id")
        is_own = Q(user_id=user.pk) | Q(owner_id=user.pk)
        is_of_team = Q(team_id__in=teams)
        # `run=None`: the limits that a message asked for are part of its run.
        return self.filter(is_of_team | Q(is_own, team=None), run=None)

    def editable_by(self, user: Any) -> Self:
        """A team's budget is its administrators' to change, any other its owner's."""
        if user.is_superuser:
            return self
        memberships = Membership.objects.filter(user_id=user.pk, role=Membership.Role.ADMINISTRATOR)
        is_of_team = Q(team_id__in=memberships.values("team_id"))
        is_own = Q(team=None, owner_id=user.pk)
        return self.filter(is_of_team | is_own)


class Budget(StoredRow):
    class Period(models.TextChoices):
        RUN = "run"
        DAY = "day"
        MONTH = "month"

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="budgets"
    )
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, blank=True, related_name="budgets")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, null=True, blank=True, related_name="budgets")
    embed = models.ForeignKey(
        Embed, on_delete=models.CASCADE, null=True, blank=True, related_name="budgets", editable=False,
        help_text="A limit of what its visitors spend.",
    )  # fmt: skip
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, null=True, blank=True, related_name="budgets", editable=False,
        help_text="A limit that a message asked for: of this run and its child runs.",
    )  # fmt: skip
    period = models.CharField(max_length=5, choices=Period.choices, default=Period.DAY)
    max_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    max_cost = models.DecimalField(
        max_digits=12, decimal_places=4, null=True, blank=True, validators=[MinValueValidator(0)]
    )
    max_runs = models.PositiveIntegerField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = BudgetQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        if self.run_id:
            return "the budget of this run"
        subject: Any = self.agent or self.user or self.team or "everyone"
        if self.embed:
            subject = f"visitors of {self.embed}"
        return f"{subject} per {self.period}"

    @classmethod
    def limit_embed(cls, embed: Embed, period: str, max_cost: Decimal | None) -> None:
        """What its visitors may spend in each period; None: no such limit."""
        rows = cls.objects.filter(embed=embed, period=period)
        # A limit that an administrator switched off is switched on again with its new amount.
        if max_cost is None:
            rows.delete()
        elif not rows.update(max_cost=max_cost, enabled=True):
            cls.objects.create(owner_id=embed.owner_id, embed=embed, period=period, max_cost=max_cost)


class Tally(models.Model):
    """What was used of a budget in one period, and what calls in progress hold. Costs are in
    `provider.UNITS`.
    """

    budget = models.ForeignKey(Budget, db_index=False, on_delete=models.CASCADE, related_name="tallies")
    key = models.CharField(max_length=36, help_text="2026-11-22, 2026-11, or the id of the root run.")
    tokens = models.BigIntegerField(default=0)
    cost = models.BigIntegerField(default=0)
    runs = models.PositiveIntegerField(default=0)
    held_tokens = models.BigIntegerField(default=0)
    held_cost = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(default=clock.near)

    class Meta:
        # One row for each period of a budget.
        constraints = [models.UniqueConstraint(fields=["budget", "key"], name="tally_once")]
        indexes = [models.Index(fields=["created_at"])]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.key}"


class Hold(models.Model):
    """A run's part of a tally: its row counts the run; its hold belongs to one model call in
    progress.

    A call without a run (a dry run of the router) has a row of its own.
    """

    tally = models.ForeignKey(Tally, db_index=False, on_delete=models.CASCADE, related_name="holds")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="holds")
    attempt = models.PositiveIntegerField(default=0, help_text="The run's attempt: a later one does not own this hold.")
    tokens = models.BigIntegerField(default=0)
    cost = models.BigIntegerField(default=0)
    is_active = models.BooleanField(default=False)
    since = models.DateTimeField(default=clock.near)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tally", "run"], name="hold_once")]
        indexes = [models.Index(fields=["since"], condition=Q(is_active=True), name="hold_active")]

    def __str__(self) -> str:
        return f"{self.tokens} tokens for run {self.run_id}"
