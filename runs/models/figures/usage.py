"""Tokens, cost and runs by agent, user or day, from run rows in one query a table."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Avg, Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from runs.models import Run

GROUPS = {"agent": "agent__name", "user": "principal__username", "day": "day", "status": "status"}


def build_usage_table(runs: QuerySet[Run], *, by: str, since: datetime, until: datetime) -> list[dict[str, Any]]:
    """One row per group: {by, runs, failed, input_tokens, output_tokens, cost}; cost in US dollars
    as text.
    """
    column = GROUPS[by]
    runs = runs.filter(created_at__gte=since, created_at__lt=until)
    if by == "day":
        runs = runs.annotate(day=TruncDate("created_at"))
    has_failed = Q(status__in=[Run.Status.FAILED, Run.Status.EXPIRED])
    groups = runs.order_by().values(column)
    figures = groups.annotate(
        runs=Count("pk"),
        failed=Count("pk", filter=has_failed),
        tokens_in=Sum("input_tokens"),
        tokens_out=Sum("output_tokens"),
        spent=Sum("cost"),
        turns_each=Avg(F("turns")),
    )
    return [as_row(row, by, column) for row in figures.order_by(column)]


def as_row(row: dict[str, Any], by: str, column: str) -> dict[str, Any]:
    group = row[column]
    cost = row["spent"] or Decimal(0)
    return {
        by: None if group is None else str(group),
        "runs": row["runs"],
        "failed": row["failed"],
        "input_tokens": row["tokens_in"] or 0,
        "output_tokens": row["tokens_out"] or 0,
        "cost": str(cost.normalize()),
        "turns": round(row["turns_each"] or 0, 2),
    }
