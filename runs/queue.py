"""Put work on the queue by task name, after the commit that made it. A message that is lost is sent again."""

import logging
from typing import Any

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)

EXECUTE_RUN = "runs.execute"
EXECUTE_STEP = "runs.execute_step"
DELIVER = "runs.deliver"


def enqueue(run_id: Any) -> None:
    """Have a worker take this run as soon as the transaction commits."""
    transaction.on_commit(lambda: send(EXECUTE_RUN, str(run_id)))


def enqueue_step(step_run_id: Any) -> None:
    transaction.on_commit(lambda: send(EXECUTE_STEP, str(step_run_id)))


def send(task: str, *arguments: Any) -> bool:
    """False when the broker is down: the recovery tick sends stale queued rows again."""
    try:
        current_app.send_task(task, args=arguments)
    except (OperationalError, OSError) as error:
        log.warning("The broker did not take %s%s: %s; the recovery tick will send it again.", task, arguments, error)
        return False
    return True
