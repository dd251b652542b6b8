"""The Celery application, for tasks of your own.

Muster itself sends no task, and its workers need no consumer of Celery. `celery -A config worker -Q
runs,default` is both in one process.
"""

import os
from typing import Any

from celery import Celery, bootsteps

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("muster")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_default_queue="default",
    task_acks_late=True,
    task_ignore_result=True,
    result_expires=None,  # otherwise a beat adds a task that cleans up results, of which there are none
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
)
app.autodiscover_tasks()
app.autodiscover_tasks(["runs.worker"])


class WorkerStep(bootsteps.StartStopStep):
    """Lets a Celery worker of the queue “runs” be a worker of Muster too."""

    requires = ("celery.worker.components:Pool",)

    def create(self, worker: Any) -> Any:
        if "runs" not in worker.app.amqp.queues.consume_from:
            return None
        from runs.worker.process import Worker  # needs the apps, which are loaded when a worker is created

        return Worker()


app.steps["worker"].add(WorkerStep)
