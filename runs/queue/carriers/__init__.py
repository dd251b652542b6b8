"""Carriers: how workers learn that there is work. `MUSTER_CARRIER` names the one that is used.

A carrier brings no work. It says “there is something in this pool”; the worker then takes the best
row by SQL (`runs/queue/fair_queue.py`). So a wake-up that is lost costs seconds, because workers
also look by themselves, and one that comes twice costs a query.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

from django.conf import settings
from django.utils.module_loading import import_string

log = logging.getLogger(__name__)
Bell = Callable[[str], None]  # receives the pool


class Carrier(Protocol):
    """One way to wake workers, made without arguments once per process. A carrier never raises
    because its broker is away.
    """

    # A wake-up reaches one worker only, which passes it on while it has no room.
    wakes_one: bool

    def ring(self, pool: str) -> bool:
        """Wake a worker that serves this pool (several may wake). Called after the commit of the
        row, from any thread. False if it could not be sent.
        """

    def listen(self, pools: Sequence[str], bell: Bell, stopping: threading.Event) -> None:
        """In a worker, on a thread of its own: call `bell(pool)` for each wake-up until `stopping`
        is set, and return within two seconds of that. While the broker is away, try again.

        `bell` blocks while the worker has no room; take no further wake-up meanwhile, so that others
        get it.
        """

    def problem(self) -> str:
        """Why the broker cannot be used at this moment; empty if it answers (`doctor`)."""


# Imported when used, since each needs its own libraries. The settings refuse other names.
CARRIERS = {
    "list": "runs.queue.carriers.redis_list.RedisList",
    "postgres": "runs.queue.carriers.postgres.Notify",
    "celery": "runs.queue.carriers.celery_broker.CeleryBroker",
    "temporal": "runs.queue.carriers.temporal.Temporal",
}
# Seconds between attempts to reach a broker that is away.
PAUSES_S = (0.05, 0.2, 1.0, 2.0)


def current() -> Carrier:
    return get_carrier(settings.CARRIER)


@cache
def get_carrier(name: str) -> Carrier:
    carrier_class = import_string(CARRIERS[name])
    return carrier_class()


def keep_hearing(
    connected: Callable[[], AbstractContextManager[Any]],
    hear: Callable[[Any], None],
    away: tuple[type[Exception], ...],
    stopping: threading.Event,
) -> None:
    """Call `hear` with a connection until `stopping` is set; with another one whenever an error of
    `away` has broken it.
    """
    failures = 0
    while not stopping.is_set():
        try:
            with connected() as line:
                failures = 0
                hear(line)
        except away as error:
            failures += 1
            log.warning("Cannot listen for work: %s", error)
            pause_after_failures(failures, stopping)


def pause_after_failures(failures: int, stopping: threading.Event) -> None:
    """Wait before attempt number `failures` + 1."""
    # After many failures, the longest pause.
    place = min(failures, len(PAUSES_S)) - 1
    stopping.wait(PAUSES_S[place])
