"""Celery tasks of three lines each."""

from celery import shared_task

from runs.chains import execution
from runs.lifecycle import queue
from runs.schedules import tick as schedules
from runs.schedules import triggers, webhooks

from . import notices, pruning, recovery, runner


@shared_task(name=queue.EXECUTE_RUN, ignore_result=True)
def execute_run(run_id: str) -> None:
    """Work on a run until it ends or waits."""
    runner.execute(run_id)


@shared_task(name=queue.EXECUTE_STEP, ignore_result=True)
def execute_step(step_run_id: str) -> None:
    """One tool call of a chain, or a slice of a for_each."""
    execution.execute_step(step_run_id)


@shared_task(name="runs.tick", ignore_result=True)
def tick() -> None:
    """Every second: start schedules, triggers and deliveries that are due."""
    schedules.tick()
    triggers.tick()
    webhooks.send_due()


@shared_task(name=queue.DELIVER, ignore_result=True)
def deliver(delivery_id: str) -> None:
    """One attempt to deliver one webhook."""
    webhooks.deliver(delivery_id)


@shared_task(name="runs.recover", ignore_result=True)
def recover() -> None:
    """The recovery tick."""
    recovery.tick()


@shared_task(name="runs.notice", ignore_result=True)
def notice() -> None:
    """Every ten minutes: report agents that behave unusually."""
    notices.tick()


@shared_task(name="runs.prune", ignore_result=True)
def prune() -> None:
    """Every night: delete old history."""
    pruning.prune()
