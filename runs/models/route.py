"""Routing decisions, and worker processes."""

from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models

from agents.models import Agent
from plumbing import clock

from .run import Run

# A worker that was not seen for so long counts as dead.
SILENT = timedelta(minutes=2)


class RouteDecisionQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(run__principal_id=user.pk)


class RouteDecision(models.Model):
    """The router's decision for one run: the agent, the method, and the other candidates."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="route")
    agent = models.ForeignKey(Agent, on_delete=models.SET_NULL, null=True, related_name="+")
    method = models.CharField(max_length=16)
    reason = models.CharField(max_length=500, blank=True)
    candidates = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = RouteDecisionQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.run_id} → {self.agent} ({self.method})"

    def as_json(self) -> dict[str, Any]:
        # The agent may have been deleted since.
        name = self.agent.name if self.agent else None
        return {"agent": name, "method": self.method, "reason": self.reason, "candidates": self.candidates}


class WorkerQuerySet(models.QuerySet):
    def alive(self, now: datetime | None = None) -> Self:
        now = now or clock.near()
        return self.filter(seen_at__gt=now - SILENT)

    def served(self) -> dict[str, int]:
        """Every pool that one of them serves, and the newest format that a worker of it reads."""
        formats: dict[str, int] = {}
        for format_, pools in self.values_list("format", "pools"):
            for pool in pools:
                formats[pool] = max(format_, formats.get(pool, 0))
        return formats


class Worker(models.Model):
    """A worker process and what it has loaded."""

    name = models.CharField(max_length=64, unique=True)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    loaded = models.JSONField(default=list, help_text="Hashes of the live agents it holds.")
    runs = models.PositiveIntegerField(default=0, help_text="Runs it held when it was last seen.")
    pools = models.JSONField(default=list, help_text="The pools that it serves; empty: it takes no runs.")
    release = models.CharField(max_length=12, blank=True, help_text="The same for workers that run the same code.")
    format = models.PositiveSmallIntegerField(default=0, help_text="The newest format of definitions that it reads.")

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
