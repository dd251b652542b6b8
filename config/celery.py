"""The Celery application for workers and every process that enqueues tasks.

Rows hold the state of a run, and leases recover the work of a crashed worker; a queue message only
names a row. So there is no result backend, and a message that is delivered twice or lost does no
harm.
"""

import os
from typing import Any

from celery import Celery, bootsteps
from celery.signals import worker_ready

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
    broker_pool_limit=32,
    # A restarting broker costs a caller at most 0.3 s; the recovery tick sends what was lost.
    task_publish_retry_policy={"max_retries": 3, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.2},
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
)
app.autodiscover_tasks()
app.autodiscover_tasks(["runs.worker"])


class PickupStep(bootsteps.StartStopStep):
    """Lets a worker of the queue “runs” take runs and chain steps, in addition to Celery's tasks."""

    requires = ("celery.worker.components:Pool",)

    def create(self, worker: Any) -> Any:
        from runs.worker.pickup import for_worker  # needs the apps, which are loaded when a worker is created

        return for_worker(worker.app.amqp.queues.consume_from)


class TickerStep(bootsteps.StartStopStep):
    """Lets every worker do the recurring work, if no other does."""

    requires = ("celery.worker.components:Pool",)

    def create(self, worker: Any) -> Any:
        from runs.worker.ticker import Ticker  # needs the apps, as above

        return Ticker()


class WarmStep(bootsteps.Step):
    """Loads what the first run needs, before the worker says that it is ready."""

    requires = ("celery.worker.components:Pool",)

    def create(self, worker: Any) -> None:
        from runs.worker.warmth import warm_up  # needs the apps, as above

        warm_up(worker.app.amqp.queues.consume_from)


app.steps["worker"].add(WarmStep)
app.steps["worker"].add(PickupStep)
app.steps["worker"].add(TickerStep)


@worker_ready.connect
def warm_libraries(sender: Any, **_: Any) -> None:
    """Once the worker is ready, and without holding it up."""
    from runs.worker.libraries import warm_in_background  # needs the apps, as above

    warm_in_background(sender.app.amqp.queues.consume_from)
