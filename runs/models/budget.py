"""Limits on tokens, cost and runs, checked before each model call."""

from typing import Any, Self

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from agents.models import Agent, Team
from agents.models.team import Membership


class BudgetQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        teams = Membership.objects.filter(user_id=user.pk).values("team_id")
        return self.filter(Q(user_id=user.pk) | Q(owner_id=user.pk) | Q(team_id__in=teams))


class Budget(models.Model):
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
        subject = self.agent or self.user or self.team or "everyone"
        return f"{subject} per {self.period}"
