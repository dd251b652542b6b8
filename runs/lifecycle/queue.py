"""Queues work by task name, after the commit that created it. A lost message is sent again.

Runs and chain steps, which must start at once, are entries of one Redis list that workers read
directly (runs/worker/pickup.py); everything else is a Celery task. A message through Celery costs
10 ms of CPU, one through the list half a millisecond; what Celery adds is provided by rows and
leases (ADR 0006).
"""

import json
import logging
from functools import lru_cache
from typing import Any

import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

from plumbing.line import Line

log = logging.getLogger(__name__)

EXECUTE_RUN = "runs.execute"
EXECUTE_STEP = "runs.execute_step"
AT_ONCE = (EXECUTE_RUN, EXECUTE_STEP)
READY = "muster:ready"  # the list; an entry is a JSON array of the task's name and its arguments


def enqueue(run_id: Any) -> None:
    """Queue this run once the transaction commits."""
    transaction.on_commit(lambda: send(EXECUTE_RUN, str(run_id)))


def enqueue_step(step_run_id: Any) -> None:
    transaction.on_commit(lambda: send(EXECUTE_STEP, str(step_run_id)))


def send(task: str, *arguments: Any) -> bool:
    """False if the broker is down: the recovery tick sends stale queued rows again."""
    try:
        if task in AT_ONCE:
            line().ask(("LPUSH", READY, json.dumps([task, *arguments])))
        else:
            current_app.send_task(task, args=arguments)
    except (OperationalError, OSError, redis.RedisError) as error:
        log.warning("The broker did not accept %s%s: %s; the recovery tick will send it again.", task, arguments, error)
        return False
    return True


@lru_cache(maxsize=1)
def line() -> Line:
    """Send to the broker. If it is unavailable this takes 2 s."""
    return Line(settings.QUEUE_URL, timeout_s=2)


def depth() -> int | None:
    """How many entries wait for a worker; None when the broker does not answer."""
    try:
        return line().ask(("LLEN", READY))[0]
    except redis.RedisError:
        return None
