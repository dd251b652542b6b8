"""Any broker that Celery knows, such as RabbitMQ, at `BROKER_URL`, through Celery's pools of
connections.

A wake-up is a small message in a queue of its own for each pool; it needs no task, and costs a
fifth of one.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from celery import Celery
from kombu import Connection, Consumer, Queue
from kombu.exceptions import KombuError

from . import Bell, keep_hearing

log = logging.getLogger(__name__)
# Seconds that one call listens; a stop is noticed after that.
LISTEN_S = 1.0
HEARTBEAT_S = 30
# Older wake-ups say nothing: workers have looked since.
OLD_S = 60.0
# Connections of a process.
POOL = 32
# Wake-ups that wait, where the broker can limit them.
MOST = 1000
QUICK = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
# The broker's own errors are added to these.
AWAY = (KombuError, OSError)


class CeleryBroker:
    wakes_one = True

    def __init__(self, app: Celery | None = None) -> None:
        self.app: Any = app or application()
        # This connects to nothing yet.
        with self.app.connection_for_write() as line:
            self.away = (*AWAY, *line.connection_errors, *line.channel_errors)

    def ring(self, pool: str) -> bool:
        try:
            with self.app.producer_pool.acquire(block=True, timeout=2) as producer:
                queue = build_wake_queue(pool)
                producer.publish(
                    [pool, time.time()],
                    routing_key=queue.name,
                    declare=[queue],
                    serializer="json",
                    delivery_mode="transient",
                    expiration=OLD_S,
                    retry=True,
                    retry_policy=QUICK,
                )
        except self.away as error:
            log.warning("No worker could be woken: %s. One looks by itself within seconds.", error)
            return False
        return True

    def listen(self, pools: Sequence[str], bell: Bell, stopping: threading.Event) -> None:
        keep_hearing(self.connected, lambda line: hear(line, pools, bell, stopping), self.away, stopping)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        with self.app.connection_for_read(heartbeat=HEARTBEAT_S) as line:
            line.ensure_connection(timeout=2, **QUICK)
            yield line

    def problem(self) -> str:
        try:
            with self.app.connection_for_write() as line:
                line.ensure_connection(timeout=2, **QUICK)
        except self.away as error:
            return str(error) or type(error).__name__
        return ""


def application() -> Celery:
    """For its connections only, so without the fixups that load Celery's worker."""
    app = Celery("muster", set_as_current=False, fixups=())
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.conf.update(broker_pool_limit=POOL)
    return app


def hear(line: Connection, pools: Sequence[str], bell: Bell, stopping: threading.Event) -> None:
    """Until the worker stops, or the connection breaks. A wake-up is acknowledged after its bell, so
    that a full worker holds one and the others go elsewhere.
    """

    def ring(body: Any, message: Any) -> None:
        pool, sent_at = body
        if time.time() - sent_at < OLD_S and not stopping.is_set():
            bell(pool)
        message.ack()

    queues = [build_wake_queue(pool) for pool in pools]
    with Consumer(line, queues=queues, callbacks=[ring], accept=["json"], prefetch_count=1):
        while not stopping.is_set():
            try:
                line.drain_events(timeout=LISTEN_S)
            except TimeoutError:
                if line.supports_heartbeats:
                    line.heartbeat_check()


def build_wake_queue(pool: str) -> Queue:
    name = f"muster.wake.{pool}"
    return Queue(name, routing_key=name, durable=True, max_length=MOST)
