"""Celery tasks of three lines each. Workers do the recurring ones themselves (ticker.py): a beat that
also sends them does no harm.
"""

from celery import shared_task

from runs.worker import webhooks

from . import anomaly_notices, pruning, recovery, ticker


@shared_task(name="runs.tick", ignore_result=True)
def tick() -> None:
    """Start schedules, triggers and deliveries that are due."""
    ticker.start_due()
    webhooks.send_due()


@shared_task(name="runs.recover", ignore_result=True)
def recover() -> None:
    """The recovery tick."""
    recovery.tick_recovery()


@shared_task(name="runs.notice", ignore_result=True)
def notice() -> None:
    """Report agents that behave unusually."""
    anomaly_notices.tick_anomalies()


@shared_task(name="runs.prune", ignore_result=True)
def prune() -> None:
    """Delete old history."""
    pruning.prune()
