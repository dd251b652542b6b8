"""A list on Valkey or Redis for each pool; `BRPOP` gives each wake-up to one worker."""

import logging
import threading
from collections.abc import Sequence

import redis
from django.conf import settings

from plumbing.broker.broadcast import name_channel
from plumbing.broker.line import Line

from . import Bell, pause_after_failures

log = logging.getLogger(__name__)
# Seconds that one call listens; a stop is noticed after that.
LISTEN_S = 1
# Wake-ups that wait: further ones would say nothing new.
MOST = 64


class RedisList:
    wakes_one = True

    def __init__(self) -> None:
        self.line = Line(settings.QUEUE_URL, timeout_s=2)

    def ring(self, pool: str) -> bool:
        key = name_ready_list(pool)
        try:
            self.line.ask(("LPUSH", key, 1), ("LTRIM", key, 0, MOST - 1))
        except (redis.RedisError, OSError) as error:
            log.warning("No worker could be woken: %s. One looks by itself within seconds.", error)
            return False
        return True

    def listen(self, pools: Sequence[str], bell: Bell, stopping: threading.Event) -> None:
        pool_of = {name_ready_list(pool): pool for pool in pools}
        # A connection of its own: this one waits most of the time.
        broker = Line(settings.QUEUE_URL, timeout_s=LISTEN_S + 2)
        failures = 0
        while not stopping.is_set():
            try:
                (entry,) = broker.ask(("BRPOP", *pool_of, LISTEN_S))
                failures = 0
            except (redis.RedisError, OSError) as error:
                failures += 1
                log.warning("Cannot listen for work: %s", error)
                pause_after_failures(failures, stopping)
                continue
            if entry:
                bell(pool_of[entry[0]])

    def problem(self) -> str:
        try:
            self.line.ask(("PING",))
        except (redis.RedisError, OSError) as error:
            return str(error) or type(error).__name__
        return ""


def name_ready_list(pool: str) -> bytes:
    return name_channel("ready", pool)
