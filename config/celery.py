"""The Celery application: workers, beat and whoever enqueues.

Rows hold the state of a run and leases bring back what a fallen worker had; the queue only says "look at this row".
So there is no result backend, and a message that is delivered twice or lost does no harm.
"""

import os
from typing import Any

from celery import Celery, bootsteps

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("muster")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_default_queue="default",
    task_routes={"runs.execute*": {"queue": "runs"}},
    task_acks_late=True,
    task_ignore_result=True,
    result_expires=None,  # else beat adds a task that cleans up results there never are
    worker_prefetch_multiplier=1,
    # Two workers of one broker must not both hold a long run: above the longest one (MUSTER_MAX_RUN).
    broker_transport_options={"visibility_timeout": 7200, "priority_steps": [0]},
    broker_connection_retry_on_startup=True,
    broker_pool_limit=32,
    # A broker that restarts costs a caller 0.3 s at most; the recovery tick sends again what it did not take.
    task_publish_retry_policy={"max_retries": 3, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.2},
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
)
app.autodiscover_tasks()
app.autodiscover_tasks(["runs.worker"])


class PickupStep(bootsteps.StartStopStep):
    """A worker of the queue “runs” takes runs and chain steps off their list, besides what Celery brings it."""

    requires = ("celery.worker.components:Pool",)

    def create(self, worker: Any) -> Any:
        from runs.worker.pickup import for_worker  # needs the apps, which are loaded when a worker is made

        return for_worker(worker.app.amqp.queues.consume_from)


app.steps["worker"].add(PickupStep)
